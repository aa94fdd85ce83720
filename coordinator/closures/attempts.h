/* Attempts of closures: what the end of an attempt means for its closure, and
 * cancelling. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_ATTEMPTS_H
#define COXI_COORDINATOR_CLOSURES_ATTEMPTS_H

#include "coordinator/closures/seat.h"

/* Handles the results that a worker has sent; COX_EPROTO: they are malformed. */
int coxi_attempts_done(struct coxi_worker *worker, const struct coxi_done *done,
                       const uint8_t *payload, size_t len);

/* Puts the closures of a lost worker back into the queue; the `running` oldest may have
 * been running. */
void coxi_attempts_put_back(struct coxi_seat *seat, uint32_t running);

/* Handles the worker's report of the steps that ran when its last process ended; the
 * list may be empty. */
void coxi_attempts_crashed(struct coxi_seat *seat, const struct coxi_crashed *crashed);

/* Cancels a closure: it ends at once, or when its worker has answered. */
void coxi_attempts_cancel(struct coxi_closure *closure);

#endif
