/* Attempts of closures: what their end means for the closure, cancelling them. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_ATTEMPTS_H
#define COXI_COORDINATOR_CLOSURES_ATTEMPTS_H

#include "coordinator/closures/seat.h"

/* A worker's results; COX_EPROTO: malformed. */
int coxi_attempts_done(struct coxi_seat *seat, const struct coxi_done *done,
                       const uint8_t *payload, size_t len);

/* Puts back what a lost worker had; the `running` oldest were at work. */
void coxi_attempts_put_back(struct coxi_seat *seat, uint32_t running);

/* Steps of the worker's last process that ran when it ended; none may have. */
void coxi_attempts_crashed(struct coxi_seat *seat, const struct coxi_crashed *crashed);

/* Ends a closure that nobody wants any more, at once or when its worker has answered. */
void coxi_attempts_cancel(struct coxi_closure *closure);

/* Cancels all attempts of all workers, running ones too. */
void coxi_attempts_cancel_all(struct cox_coordinator *c);

#endif
