/* What may be sent: for the codec. */
#ifndef COXI_SCHEMA_LIMITS_H
#define COXI_SCHEMA_LIMITS_H

#include "schema/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* False for a message that the decoder at the other end would refuse for its names, ranks
 * or the size of its arrays. Any thread; no allocation. */
bool coxi_message_fits(const struct coxi_message *message);

#ifdef __cplusplus
}
#endif
#endif
