/*
 * Requests to one or several ps that a thread waits for: all are under way at once, and
 * it goes on when the last has ended.
 *
 *     struct coxi_round round;
 *     coxi_round_begin(&round);
 *     for (each ps) {
 *         coxi_round_add(&round, ps[i], &message, &calls[i]);
 *     }
 *     int r = coxi_round_end(&round);
 *
 * Threads: begin, add and end are one thread's; not one of a ps client's.
 */
#ifndef COXI_NET_PS_ROUND_H
#define COXI_NET_PS_ROUND_H

#include <pthread.h>

#include "net/ps_client.h"

struct coxi_round {
    pthread_mutex_t lock; /* guards all below; leaf */
    pthread_cond_t ended;
    size_t n_pending;
    int code; /* the first that was not 0, in the order of their coming */
    char text[512];
};

struct coxi_round_call {
    struct coxi_psc_request request; /* but for `done`, as for coxi_psc_submit */
    enum coxi_message_kind expect;   /* another answer is COX_EPROTO */
    /* Looks at an answer of code 0; under the round's lock: one at a time. NULL: nobody
     * does. */
    void (*take)(void *arg, const struct coxi_message *answer);
    void *arg;
    struct coxi_round *round; /* set by coxi_round_add */
    int code;                 /* how it ended, once coxi_round_end has returned */
};

void coxi_round_begin(struct coxi_round *round);

/* `call` and what it refers to stay until coxi_round_end, `message` does not. Where it
 * cannot be submitted, that is what the round ends with. */
void coxi_round_add(struct coxi_round *round, struct coxi_psc *psc,
                    const struct coxi_message *message, struct coxi_round_call *call);

/* The same, without waiting for room in the line to the ps: for what is asked of one that may
 * not answer any more. */
void coxi_round_add_now(struct coxi_round *round, struct coxi_psc *psc,
                        const struct coxi_message *message,
                        struct coxi_round_call *call);

/* Waits for every call. Returns the first code other than 0, of an answer or why there is
 * none, with its text as the error text. Once after every begin. */
int coxi_round_end(struct coxi_round *round);

/* A round of one call: what the struct says of expect, take and arg. */
int coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                  struct coxi_psc_request *request, enum coxi_message_kind expect,
                  void (*take)(void *arg, const struct coxi_message *answer),
                  void *arg);

#endif
