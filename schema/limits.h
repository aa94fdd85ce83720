/* The limits of messages, for the codec. */
#ifndef COXI_SCHEMA_LIMITS_H
#define COXI_SCHEMA_LIMITS_H

#include "schema/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* False if the decoder at the other end would refuse the message because of its names,
 * ranks or the size of its arrays. Any thread; no allocation. */
bool coxi_message_fits(const struct coxi_message *message);

/* False if a code in the message is above 0. No code of ours is, and a program could
 * take it for a success. */
bool coxi_message_codes_fit(const struct coxi_message *message);

#ifdef __cplusplus
}
#endif
#endif
