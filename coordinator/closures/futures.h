/* Functions of futures (future.h): references, results, the end. */
#ifndef COXI_COORDINATOR_CLOSURES_FUTURES_H
#define COXI_COORDINATOR_CLOSURES_FUTURES_H

#include "coordinator/closures/closure.h"

/* Drops a reference. The last one frees the closure, too. */
void coxi_future_unref(struct cox_future *future);

/* Frees closures to which no reference is left; a list by `next`. Takes NULL. */
void coxi_futures_free(struct coxi_closure *list);

void coxi_coordinator_unref(struct cox_coordinator *c);

/* Copies the closure's result, unless nobody holds the future. Loop; before it is
 * settled. */
int coxi_future_keep(struct cox_future *future, const uint8_t *result, size_t len);

/* Finds the result called `name` of a closure that is done; COX_ENOENT. */
int coxi_future_find(struct cox_future *future, const char *name, struct cox_value *ret)
    COXI_REQUIRES(future->c->lock);

/* Why the closure failed or was cancelled. Settled. */
const char *coxi_future_text(const struct cox_future *future);

/* Settles the future: wakes the threads that wait for it, and passes its callbacks
 * on. */
void coxi_future_settled(struct cox_future *future) COXI_REQUIRES(future->c->lock);

/* True if the closure is done and its results are not at the client. Settled; locked,
 * or on the loop. */
bool coxi_future_is_away(struct cox_future *future);

#endif
