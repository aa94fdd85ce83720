/* RecordIO files (data/recordio.h). Raw records stay in the block that has their
 * chunk. */
#ifndef COXI_DATA_FORMAT_RECORDIO_H
#define COXI_DATA_FORMAT_RECORDIO_H

#include "data/format.h"

extern const struct coxi_format coxi_format_recordio;

#endif
