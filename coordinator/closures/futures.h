/* What is done with futures (future.h): references, results, the end. */
#ifndef COXI_COORDINATOR_CLOSURES_FUTURES_H
#define COXI_COORDINATOR_CLOSURES_FUTURES_H

#include "coordinator/closures/closure.h"

/* Drops a reference. The last one frees the closure, too. */
void coxi_future_unref(struct cox_future *future);

/* Drops a reference; returns true for the last one, and leaves it to the caller to free the
 * closure, with others in a list. */
bool coxi_future_release(struct cox_future *future);

/* Frees closures that nobody holds any more, a list by `next`. Takes NULL. */
void coxi_futures_free(struct coxi_closure *list);

void coxi_coordinator_unref(struct cox_coordinator *c);

/* Copies the closure's result, unless nobody holds the future. Loop, not settled yet. */
int coxi_future_keep(struct cox_future *future, const uint8_t *result, size_t len);

/* The result called `name` of one that is done; COX_ENOENT. Locked. */
int coxi_future_find(struct cox_future *future, const char *name,
                     struct cox_value *ret);

/* Why it failed or was cancelled. Settled. */
const char *coxi_future_text(const struct cox_future *future);

/* From now on it is settled: wakes who waits for it, passes its callbacks on. Locked. */
void coxi_future_settled(struct cox_future *future);

/* It is done, and what it returned is not here. Settled; locked, or the loop's. */
bool coxi_future_is_away(struct cox_future *future);

#endif
