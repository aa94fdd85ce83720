/* Resources: each worker makes them once and keeps them for the steps that ask for
 * them. Loop, unless noted otherwise. */
#ifndef COXI_COORDINATOR_WORKERS_RESOURCE_H
#define COXI_COORDINATOR_WORKERS_RESOURCE_H

#include "coordinator/coordinator.h"

struct coxi_worker;

/* at a time, including released ones that still exist; workers have the same limit */
enum { COXI_RESOURCES_MAX = 1024 };

/* All resources: c->resources. Guarded by c->lock. */
struct coxi_resources {
    struct cox_resource *all[COXI_RESOURCES_MAX]; /* by rising id */
    uint32_t n;
    uint32_t n_released; /* released ones that are not dropped yet */
    uint32_t last_id;
    bool changed; /* tell workers in the next turn of the loop */
};

/* Makes an empty set. COX_ENOMEM. */
int coxi_resources_new(struct cox_coordinator *c);

/* Asks the worker for the next resource that it lacks, unless it is making one. True
 * while there is one. */
bool coxi_resource_tell(struct coxi_worker *worker);

/* The lowest position of a resource above `id`: the resource was created when closures
 * and writes up to that position had been accepted. UINT64_MAX: there is none. */
uint64_t coxi_resource_position_above(struct cox_coordinator *c, uint64_t id);

/* Handles a worker's answer. COX_EPROTO: the worker was not asked for this. */
int coxi_resource_made(struct coxi_worker *worker, const struct coxi_status *answer);

/* The worker's last process has crashed while it made a resource. */
void coxi_resource_crashed(struct coxi_worker *worker,
                           const struct coxi_crashed_head *crash);

/* Tells workers to drop or to hide released resources. */
void coxi_resources_tell_released(struct cox_coordinator *c);

/* Makes the loop's turn drop released resources that nothing needs any more. Call every
 * COXI_TICK_MS. */
void coxi_resources_tick(struct cox_coordinator *c);

/* True if half of the possible number of resources are released and wait only for a
 * checkpoint. With c->lock, any thread. */
bool coxi_resources_are_due(const struct cox_coordinator *c);

/* Call when the loop has ended. Does nothing if coxi_resources_new has failed. */
void coxi_resources_free(struct cox_coordinator *c);

#endif
