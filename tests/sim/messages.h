/* Messages as a trace tells them. */
#ifndef COXI_TESTS_SIM_MESSAGES_H
#define COXI_TESTS_SIM_MESSAGES_H

#include "schema/wire.h"

/* "Commit"; "?" of a kind that is unknown here. */
const char *sim_message_name(enum coxi_message_kind kind);

/* What the message is about, cut to `room` bytes: closures, attempts, codes. */
void sim_message_tell(const struct coxi_message *m, char *ret, size_t room);

#endif
