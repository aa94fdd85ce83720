/* Callbacks of futures, on a thread of their own. */
#ifndef COXI_COORDINATOR_CLOSURES_CALLBACK_H
#define COXI_COORDINATOR_CLOSURES_CALLBACK_H

#include "coordinator/coordinator.h"

/* coxi_callbacks_new is called first in cox_open (COX_ENOMEM); coxi_callbacks_free when
 * no future is left. */
int coxi_callbacks_new(struct cox_coordinator *c);
void coxi_callbacks_free(struct cox_coordinator *c);

/* Passes the callbacks of a settled future to the callback thread, in their order. */
void coxi_callbacks_pass(struct cox_future *future) COXI_REQUIRES_C_LOCK;

/* COX_EDEADLK on the callback thread of `c`, else 0. Any thread. */
int coxi_callbacks_check(const struct cox_coordinator *c, const char *what);

/* Ends the callback thread when it has called all callbacks. Not on that thread. */
void coxi_callbacks_stop(struct cox_coordinator *c);

#endif
