/* What one run may take of a ps that it shares with others; 0: no limit. */
#ifndef COXI_PS_QUOTA_H
#define COXI_PS_QUOTA_H

#include <stdint.h>

struct coxi_quota {
    uint64_t bytes_max; /* of variables and tables: --run-bytes-max */
    uint32_t variables_max;
    uint32_t connections_max;
};

#endif
