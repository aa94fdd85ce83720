/* All workers, and their state as a whole. */
#ifndef COXI_COORDINATOR_WORKERS_WORKERS_H
#define COXI_COORDINATOR_WORKERS_WORKERS_H

#include "coordinator/coordinator.h"

struct coxi_cut;
struct coxi_door;
struct coxi_worker;
struct coxi_worker_events;

/* c->workers. */
struct coxi_workers {
    const struct coxi_worker_events *events;
    /* what a worker's threads have done since it was asked before; repeats the number of
     * the question. Set before the loop runs (monitor/trace.c) */
    void (*traced)(struct cox_coordinator *c, uint32_t worker, uint64_t request,
                   const struct coxi_trace_told *told);
    struct coxi_door *door; /* where workers dial us; or NULL */
    atomic_size_t n_conns;  /* connections that exist in some state */

    /* ---- used by the loop */
    struct coxi_worker **all; /* by index; changed by the loop, with c->lock */
    uint32_t n;               /* changed in the same way */
    uint32_t capacity;
    struct coxi_cut *cuts; /* ps that no worker reaches (reach.c); or NULL */
    uint32_t n_local;      /* connections that have a thread (conn.c) */
    uint32_t n_layout;     /* variables that all workers were told of (layout.c) */
    uint32_t n_shipped;    /* modules that workers were told of */

    /* ---- guarded by c->lock */
    bool layout_due; /* tell workers in the next turn (layout.c) */
    uint32_t n_ready;
    uint32_t n_hopeless; /* workers that refuse us for good */
    uint32_t n_untried;  /* listed workers that have neither greeted nor failed yet */
    /* the error of a listed worker whose address is wrong or another worker's; or 0 */
    int misplaced_code;
    char misplaced_text[COXI_TEXT_MAX];
    int code; /* the last reason why a worker is not connected */
    char text[COXI_TEXT_MAX];
};

#endif
