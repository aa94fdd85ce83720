/* Resources: what each worker makes once and keeps for the steps that ask for it. Loop, unless said otherwise. */
#ifndef COXI_COORDINATOR_WORKERS_RESOURCE_H
#define COXI_COORDINATOR_WORKERS_RESOURCE_H

#include "coordinator/coordinator.h"

struct coxi_worker;

/* At a time, released ones that are still there too; workers take as many. */
enum { COXI_RESOURCES_MAX = 1024 };

/* All of them: c->resources. Guarded by c->lock. */
struct coxi_resources {
    struct cox_resource *all[COXI_RESOURCES_MAX]; /* by rising id */
    uint32_t n;
    uint32_t n_released; /* of them: they are not dropped yet */
    uint32_t last_id;
    bool changed; /* workers are to be told in the next turn of the loop */
};

/* None yet. COX_ENOMEM. */
int coxi_resources_new(struct cox_coordinator *c);

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

/* When the loop has ended. Nothing where coxi_resources_new has failed. */
void coxi_resources_free(struct cox_coordinator *c);

#endif
