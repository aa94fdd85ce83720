/* A future: the user's handle of a closure. futures.h has the functions; closure.h has
 * the closure, whose first field it is. */
#ifndef COXI_COORDINATOR_CLOSURES_FUTURE_H
#define COXI_COORDINATOR_CLOSURES_FUTURE_H

#include "coordinator/coordinator.h"

struct coxi_callback; /* callback.c */
struct coxi_waiter;   /* futures.c */

struct cox_future {
    /*
     * The coordinator holds one reference until the closure is settled
     * (coxi_future_keep relies on the coordinator having only this one); the user holds
     * one; each callback holds one until it was called; each call that takes the result
     * holds one.
     */
    atomic_int refs;
    /* Set under c->lock; from then on the outcome does not change. */
    atomic_bool settled;
    struct cox_coordinator *c; /* the user's reference includes one to this */
    struct coxi_closure_id id; /* of the closure; set by the intake */

    /* ---- the outcome: owned by the loop until it is settled */
    int code;
    int step_code;
    char *text; /* of an error */
    uint8_t *result;
    size_t result_len;

    /* ---- guarded by c->lock */
    struct cox_value *values; /* of the result; unpacked on first use */
    size_t n_values;
    struct coxi_waiter *waiters;
    struct coxi_callback *callbacks; /* newest first */
};

static inline void coxi_future_ref(struct cox_future *future)
{
    atomic_fetch_add_explicit(&future->refs, 1, memory_order_relaxed);
}

/* Drops a reference; true if it was the last one: then the caller must free the
 * closure, perhaps together with others in a list (futures.h). */
static inline bool coxi_future_release(struct cox_future *future)
{
    return atomic_fetch_sub_explicit(&future->refs, 1, memory_order_acq_rel) == 1;
}

#endif
