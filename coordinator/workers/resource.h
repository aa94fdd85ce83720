/* Resources: what each worker makes once and keeps for the steps that ask for it. Loop, unless said otherwise. */
#ifndef COXI_COORDINATOR_WORKERS_RESOURCE_H
#define COXI_COORDINATOR_WORKERS_RESOURCE_H

#include "coordinator/coordinator.h"

/* Asks the worker for the next resource that it lacks, unless it is making one: true while
 * there is one. */
bool coxi_resource_tell(struct coxi_worker *worker);

/* The lowest position above `id` of a resource: it was created when closures and writes up
 * to that id had been taken in. UINT64_MAX: none was. */
uint64_t coxi_resource_position_above(struct cox_coordinator *c, uint64_t id);

/* A worker's answer; COX_EPROTO: to nothing that it was asked. */
int coxi_resource_made(struct coxi_worker *worker, const struct coxi_status *answer);

/* The worker's last process crashed while it made a resource. */
void coxi_resource_crashed(struct coxi_worker *worker,
                           const struct coxi_crashed_head *crash);

/* Tells workers of resources that have been released: to drop them, or to hide them. */
void coxi_resources_tell_released(struct cox_coordinator *c);

/* Has the loop's turn drop released resources that nothing needs any more. Every
 * COXI_TICK_MS. */
void coxi_resources_tick(struct cox_coordinator *c);

/* With c->lock, any thread: half as many as there may be are released and wait for nothing but a
 * checkpoint. */
bool coxi_resources_are_due(const struct cox_coordinator *c);

/* When the loop has ended. */
void coxi_resources_free(struct cox_coordinator *c);

#endif
