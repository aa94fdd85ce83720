/* Callbacks of futures, on a thread of their own. */
#ifndef COXI_COORDINATOR_CLOSURES_CALLBACK_H
#define COXI_COORDINATOR_CLOSURES_CALLBACK_H

#include "coordinator/coordinator.h"

/* In cox_open, before anything else of it (COX_ENOMEM); when no future is left. */
int coxi_callbacks_new(struct cox_coordinator *c);
void coxi_callbacks_free(struct cox_coordinator *c);

/* The callbacks of a settled future are to be called, in their order. Locked. */
void coxi_callbacks_pass(struct cox_future *future);

/* COX_EDEADLK on the callback thread of `c`, else 0. Any thread. */
int coxi_callbacks_check(const struct cox_coordinator *c, const char *what);

/* Ends the callback thread when it has called everything. Not from there. */
void coxi_callbacks_stop(struct cox_coordinator *c);

#endif
