/*
 * A round: requests to one or several ps, all under way at once. The thread waits until
 * the last one has ended.
 *
 *     struct coxi_ps_round round;
 *     coxi_ps_round_begin(&round);
 *     for (each ps) {
 *         coxi_ps_round_add(&round, ps[i], &message, &calls[i]);
 *     }
 *     int r = coxi_ps_round_end(&round);
 *
 * Threads: one thread calls begin, add and end; not a thread of a ps client.
 */
#ifndef COXI_NET_PS_ROUND_H
#define COXI_NET_PS_ROUND_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/sync.h"
#include "net/ps_client.h"

struct coxi_ps_round {
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t ended;
    atomic_size_t n_pending;        /* written under the lock */
    int code COXI_GUARDED_BY(lock); /* of the first request that failed; 0: none yet */
    char text[512] COXI_GUARDED_BY(lock);
};

struct coxi_ps_round_call {
    struct coxi_psc_request request; /* as for coxi_psc_submit, except `done` */
    enum coxi_message_kind expect;   /* another kind of answer is COX_EPROTO */
    /* Called with each answer of code 0, while the round's lock is held, so one call at
     * a time. Optional. */
    void (*take)(void *arg, const struct coxi_message *answer);
    void *arg;
    struct coxi_ps_round *round; /* set by coxi_ps_round_add */
    int code;                    /* its result, after coxi_ps_round_end */
};

void coxi_ps_round_begin(struct coxi_ps_round *round);

/* `call`, with all that it refers to, must stay until coxi_ps_round_end; `message` need
 * not. If the request cannot be submitted, the round ends with that error. */
void coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                       const struct coxi_message *message,
                       struct coxi_ps_round_call *call);

/* Like coxi_ps_round_add, but does not wait for room in the queue to the ps. For a ps that
 * may have stopped answering. */
void coxi_ps_round_add_now(struct coxi_ps_round *round, struct coxi_psc *psc,
                           const struct coxi_message *message,
                           struct coxi_ps_round_call *call);

/* Waits until every call has ended. Returns the first error, with its text: an
 * answer's, or that of a request that got no answer. 0: no error. Call it once after
 * every begin. */
int coxi_ps_round_end(struct coxi_ps_round *round);

/* A round of one call; expect, take and arg as in struct coxi_ps_round_call. */
int coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                  struct coxi_psc_request *request, enum coxi_message_kind expect,
                  void (*take)(void *arg, const struct coxi_message *answer),
                  void *arg);

#endif
