/*
 * Memory for long payloads, which do not fit into a link's receive buffer. A payload
 * takes memory only if its message names the session that has the store, so a stranger
 * takes none; and all connections together have a budget. Any other payload is received
 * and dropped, and the message is answered without it.
 *
 * Also within this budget is the other memory that grows with what peers send: for long
 * messages, for answers that wait for a peer (both beyond COXI_LINK_OWN_FREE bytes of a
 * connection), for commits in work (coxi_peer.aside), for requests that wait for the
 * disk (deferred.h), and for shards that travel (carry.h). A connection that would need more is closed, and such a request
 * refused.
 *
 * A run on a ps that runs share has at most as many bytes of the budget as are free, and
 * a run's readers have a quarter of it, so that others always find some.
 *
 * A link keeps its memory for the next payload, so a connection counts with the length
 * of its longest payload until it is closed. Any thread; a peer only on its
 * connection's thread.
 */
#ifndef COXI_PS_PAYLOADS_H
#define COXI_PS_PAYLOADS_H

#include <stddef.h>
#include <stdint.h>

#include "net/server.h"
#include "ps/memory.h"

struct coxi_store;

struct coxi_payloads {
    struct coxi_store *store;
    struct coxi_memory memory;
    struct coxi_memory readers; /* counts in `memory`, too */
    atomic_bool is_shared;      /* other runs use the same ps */
};

/* The budget is as large as that of variables and tables (--memory-max), but at least
 * 256 MiB; `memory_max` 0: the memory of the host. The store is borrowed. */
void coxi_payloads_init(struct coxi_payloads *payloads, struct coxi_store *store,
                        uint64_t memory_max);

/* Sets the budget of one run, or of all runs of a ps. */
void coxi_payloads_budget(struct coxi_memory *memory, uint64_t memory_max);

/* Call this before a payload of `len` bytes is received. COX_EFENCED, COX_EPSLOST,
 * COX_ENOMEM: drop the payload. COX_EPROTO: a message of this kind has no payload. */
int coxi_payloads_take(struct coxi_payloads *payloads, struct coxi_peer *peer,
                       const struct coxi_message *message, size_t len);

/* Memory of the peer's connection other than for payloads changes from `from` to `to`
 * bytes. COX_ENOMEM; never for less. Any thread. */
int coxi_payloads_resize(struct coxi_payloads *payloads, const struct coxi_peer *peer,
                         size_t from, size_t to);

/* Makes room in the peer's `aside` (coxi_memory_reserve), which is empty then. */
int coxi_payloads_aside(struct coxi_payloads *payloads, struct coxi_peer *peer,
                        size_t bytes);

/* Memory for requests of members that wait. COX_ENOMEM. Any thread. */
int coxi_payloads_hold(struct coxi_payloads *payloads, size_t bytes);
void coxi_payloads_drop(struct coxi_payloads *payloads, size_t bytes);

/* The peer is gone. */
void coxi_payloads_give(struct coxi_payloads *payloads, struct coxi_peer *peer);

/* Answers a message whose payload was dropped, with the code for which it was dropped.
 * COX_EPROTO: close the connection. */
int coxi_payloads_refuse(struct coxi_payloads *payloads, const struct coxi_peer *peer,
                         const struct coxi_message *message);

/* A tool names the run whose values it reads, but has no token: only the client and its
 * workers have it. Puts the run's token into the tool's session. */
void coxi_payloads_lend_token(struct coxi_store *store, const struct coxi_peer *peer,
                              struct coxi_session *session);

#endif
