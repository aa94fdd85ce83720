/*
 * Which workers reach which ps. A worker that cannot reach a ps reports that, and gets
 * nothing to do until it can: its closures are put back and go elsewhere. A ps that no
 * worker reaches is lost, even if the client reaches it. Loop.
 */
#ifndef COXI_COORDINATOR_WORKERS_REACH_H
#define COXI_COORDINATOR_WORKERS_REACH_H

#include "coordinator/workers/worker.h"

/* A worker reports that it cannot reach a ps, or (code 0) that it can again.
 * COX_EPROTO, COX_ENOMEM. */
int coxi_reach_told(struct coxi_worker *worker, const struct coxi_status *said);

/* The worker is away: its next process will report again which ps it cannot reach. */
void coxi_reach_forget(struct coxi_worker *worker);

/* Declares ps lost that no worker reaches. Call every COXI_TICK_MS. */
void coxi_reach_tick(struct cox_coordinator *c, uint64_t now);

/* True if there is a ps that no connected worker reaches: then closures wait for the
 * ps, not for a worker. */
bool coxi_reach_is_cut(const struct cox_coordinator *c);

void coxi_reach_free(struct cox_coordinator *c);

#endif
