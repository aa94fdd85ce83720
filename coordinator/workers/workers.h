/* All workers, and what is known of them as a whole. */
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
    struct coxi_door *door; /* where workers dial us; or NULL */
    atomic_size_t n_conns;  /* connections that exist in some state */

    /* ---- the loop's own */
    struct coxi_worker **all; /* by index */
    uint32_t n;               /* changed by the loop, with c->lock */
    uint32_t capacity;
    struct coxi_cut *cuts; /* ps that no worker reaches (reach.c); or NULL */
    uint32_t n_layout;     /* variables that workers have been told of (layout.c) */
    uint32_t n_shipped;    /* modules that workers have been told of */

    /* ---- guarded by c->lock */
    bool layout_due; /* workers are to be told in the next turn (layout.c) */
    uint32_t n_ready;
    uint32_t n_hopeless; /* workers that refuse us for good */
    uint32_t n_untried; /* listed workers that have neither greeted nor failed to yet */
    int misplaced_code; /* a listed worker cannot be the one that is meant, or is nowhere */
    char misplaced_text[COXI_TEXT_MAX];
    int code; /* why a worker is not there, the last reason */
    char text[COXI_TEXT_MAX];
};

#endif
