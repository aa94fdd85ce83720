/*
 * What a worker is sent of closures: dispatches, which are collected and leave as one message in
 * a turn of the loop, and recalls. Loop.
 */
#ifndef COXI_COORDINATOR_CLOSURES_SEND_H
#define COXI_COORDINATOR_CLOSURES_SEND_H

#include "coordinator/closures/seat.h"

/* Adds an attempt of the closure to what is sent next; COX_ENOMEM: it is not there. */
int coxi_send_add(struct coxi_seat *seat, const struct coxi_closure *closure,
                  uint32_t attempt);

/* Sends what has been added, if anything; forgets it. */
void coxi_send_flush(struct coxi_seat *seat);

/* Asks for an attempt back if the worker has not started it; `running`: it is cancelled if it
 * runs. */
void coxi_send_recall(struct coxi_seat *seat, uint64_t id, uint32_t attempt,
                      bool running);

/* Asks for all attempts back, and has those that run cancelled; or only for those that the worker
 * has not started. */
void coxi_send_recall_all(struct coxi_seat *seat);
void coxi_send_recall_waiting(struct coxi_seat *seat);

#endif
