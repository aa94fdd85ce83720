/*
 * A future: what the user of a closure holds and waits for. futures.h has what is done with it;
 * closure.h has the closure, which begins with it.
 */
#ifndef COXI_COORDINATOR_CLOSURES_FUTURE_H
#define COXI_COORDINATOR_CLOSURES_FUTURE_H

#include "coordinator/coordinator.h"

struct coxi_callback; /* callback.c */
struct coxi_waiter;   /* futures.c */

struct cox_future {
    /* The coordinator has one until the closure is settled (coxi_future_keep counts on there
     * being no more of its own); the user one; each callback one until it has been called; each
     * call that takes the result one. */
    atomic_int refs;
    /* Set under c->lock; the outcome does not change then. */
    atomic_bool settled;
    struct cox_coordinator *c; /* the user's reference holds one of it */
    uint64_t id;               /* of the closure; from the intake */

    /* ---- the outcome: the loop's until it is settled */
    int code;
    int step_code;
    char *text; /* of an error */
    uint8_t *result;
    size_t result_len;

    /* ---- guarded by c->lock */
    struct cox_value
        *values; /* of the result; unpacked when they are first asked for */
    size_t n_values;
    struct coxi_waiter *waiters;
    struct coxi_callback *callbacks; /* newest first */
};

static inline void coxi_future_ref(struct cox_future *future)
{
    atomic_fetch_add_explicit(&future->refs, 1, memory_order_relaxed);
}

#endif
