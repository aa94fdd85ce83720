/* Workers that are gone: which of these losses count against the closures that they had, and
 * for how long closures wait for workers. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_LOSSES_H
#define COXI_COORDINATOR_CLOSURES_LOSSES_H

#include "coordinator/closures/seat.h"

/* The worker is lost, and the closure is one of those that may have run there. */
void coxi_loss_count(struct coxi_seat *seat, struct coxi_closure *closure);

/* Whatever was counted for the worker's loss before the current one stays counted. */
void coxi_losses_begin(struct coxi_seat *seat);

/* The worker is there again and says which steps ran when its process died (n_closures 0:
 * none did, or it did not die): the closures of the others lose nothing by that. */
void coxi_losses_told(struct coxi_seat *seat, const struct coxi_crashed *crashed);

/* Looks how long closures have to wait for workers; how long that is. */
void coxi_losses_tick(struct cox_coordinator *c);
int coxi_losses_wait_ms(const struct cox_coordinator *c);

#endif
