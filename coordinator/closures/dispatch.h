/* A turn of the loop; and messages about closures to a worker: recalls, and dispatches,
 * which are collected and leave as one message in each turn. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_DISPATCH_H
#define COXI_COORDINATOR_CLOSURES_DISPATCH_H

#include "coordinator/closures/seat.h"

/* Runs when the loop is woken: takes in closures, cancels, sends, moves the
 * watermark. */
void coxi_dispatch(void *coordinator);

/* A part of it: queues closures whose inputs have come, and ends those whose inputs never
 * will; and looks at rounds, whose end may let closures run or end. */
void coxi_dispatch_go_on(struct cox_coordinator *c);

/* ---- messages to a worker */

/* Adds an attempt of the closure to the next dispatch; COX_ENOMEM: it was not added. */
int coxi_send_add(struct coxi_seat *seat, const struct coxi_closure *closure,
                  uint32_t attempt);

/* Sends the collected dispatch, if there is one. */
void coxi_send_flush(struct coxi_seat *seat);

/* Asks for an attempt back if the worker has not started it; `running`: a running
 * attempt is cancelled. */
void coxi_send_recall(struct coxi_seat *seat, struct coxi_closure_id id,
                      uint32_t attempt, bool running);

/* Asks for all attempts back that have not started. */
void coxi_send_recall_waiting(struct coxi_seat *seat);

#endif
