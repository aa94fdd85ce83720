/*
 * Which workers reach which ps. A worker that cannot reach one says so, and gets nothing to
 * do until it does: what it has is put back and goes elsewhere. A ps that no worker reaches is
 * lost, although the client may reach it. All on the loop.
 */
#ifndef COXI_COORDINATOR_WORKERS_REACH_H
#define COXI_COORDINATOR_WORKERS_REACH_H

#include "coordinator/workers/worker.h"

/* A worker says that it cannot reach a ps, or (code 0) can again. COX_EPROTO, COX_ENOMEM. */
int coxi_reach_told(struct coxi_worker *worker, const struct coxi_status *said);

/* The worker is away: its next process says anew what it cannot reach. */
void coxi_reach_forget(struct coxi_worker *worker);

/* Declares ps lost that no worker reaches. Every COXI_TICK_MS. */
void coxi_reach_tick(struct cox_coordinator *c, uint64_t now);

/* No worker that is there reaches some ps: closures wait for that, not for a worker. */
bool coxi_reach_is_cut(const struct cox_coordinator *c);

void coxi_reach_free(struct cox_coordinator *c);

#endif
