/*
 * Memory for long payloads, which do not fit into a link's receive buffer. Only the
 * client that has the worker gets it, for the messages that have a payload, and all its
 * connections together have a budget: the memory of this host. Any other long payload
 * is dropped as it comes, and the connection closed.
 *
 * A link keeps its memory for the next payload, so a connection counts with the length
 * of its longest payload until it is closed. Any thread; a peer only on its
 * connection's thread.
 */
#ifndef COXI_WORKER_PAYLOADS_H
#define COXI_WORKER_PAYLOADS_H

#include <stdatomic.h>

#include "net/server.h"

struct coxi_budget {
    uint64_t max_bytes; /* 0: unknown */
    atomic_uint_least64_t used_bytes;
};

void coxi_budget_init(struct coxi_budget *budget);

/* Call this before a payload of `len` bytes is received. COX_EPROTO: messages of this
 * kind have none as long; COX_ELIMIT: the budget is used up. */
int coxi_budget_take(struct coxi_budget *budget, struct coxi_peer *peer,
                     const struct coxi_message *message, size_t len);

/* The peer is gone. */
void coxi_budget_give(struct coxi_budget *budget, struct coxi_peer *peer);

#endif
