/* Lost workers: which losses count against the closures that they had, and how long
 * closures wait for workers. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_LOSSES_H
#define COXI_COORDINATOR_CLOSURES_LOSSES_H

#include "coordinator/closures/seat.h"

/* Counts the loss of the worker for a closure that may have run there. */
void coxi_loss_count(struct coxi_seat *seat, struct coxi_closure *closure);

/* A new loss begins: counts for earlier losses of this worker are final. */
void coxi_losses_begin(struct coxi_seat *seat);

/* The worker is back and says which steps ran when its process died (n_closures 0: none
 * did, or it did not die): for other closures the loss no longer counts. */
void coxi_losses_told(struct coxi_seat *seat, const struct coxi_crashed *crashed);

/* coxi_losses_wait_ms returns how long closures wait for workers before they fail.
 * coxi_losses_tick starts that time anew when a ps is away, and when all are back. */
void coxi_losses_tick(struct cox_coordinator *c);
int coxi_losses_wait_ms(const struct cox_coordinator *c);

#endif
