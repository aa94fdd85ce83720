/* Answers a client that asks what the threads of this daemon do (common/trace.h). */
#ifndef COXI_NET_TRACED_H
#define COXI_NET_TRACED_H

#include "net/message.h"

/* Answers a TraceAsk of the client of `run`. COX_ECLOSED; COX_ENOMEM. Any thread. */
int coxi_traced_answer(struct coxi_link *link, const struct coxi_message *ask,
                       uint64_t run);

#endif
