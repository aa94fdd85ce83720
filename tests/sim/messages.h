/* Prints messages for a trace. */
#ifndef COXI_TESTS_SIM_MESSAGES_H
#define COXI_TESTS_SIM_MESSAGES_H

#include "schema/wire.h"

/* "Commit"; "?": an unknown kind. */
const char *sim_message_name(enum coxi_message_kind kind);

/* The content of the message, cut to `room` bytes: closures, attempts, codes. */
void sim_message_tell(const struct coxi_message *m, char *ret, size_t room);

#endif
