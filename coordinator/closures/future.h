/* What a user holds of a closure: its references, its result, its end. */
#ifndef COXI_COORDINATOR_CLOSURES_FUTURE_H
#define COXI_COORDINATOR_CLOSURES_FUTURE_H

#include "coordinator/coordinator.h"

/* Drops a reference; `release`: says whether it was the last, and leaves it to the caller
 * to free the future, with others in a list. */
void coxi_future_unref(struct cox_future *future);
bool coxi_future_release(struct cox_future *future);
void coxi_futures_free(struct cox_future *list);

void coxi_coordinator_unref(struct cox_coordinator *c);

/* Copies the closure's result, unless nobody holds the future. Loop, not settled yet. */
int coxi_future_keep(struct cox_future *future, const uint8_t *result, size_t len);

/* The result called `name` of one that is done; COX_ENOENT. Locked. */
int coxi_future_find(struct cox_future *future, const char *name,
                     struct cox_value *ret);

/* From now on it is settled: wakes who waits for it, passes its callbacks on. Locked. */
void coxi_future_settled(struct cox_future *future);

/* It is done, and what it returned is not here. Settled; locked, or the loop's. */
bool coxi_future_is_away(const struct cox_future *future);

#endif
