/* Closures that are not settled: where each of them is, and the loop's tasks for its
 * next turns. */
#ifndef COXI_COORDINATOR_CLOSURES_CLOSURES_H
#define COXI_COORDINATOR_CLOSURES_CLOSURES_H

#include "checkpoint/manifest.h"
#include "common/sync.h"
#include "common/window.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/pool.h"

struct coxi_input;
struct coxi_kept;
struct coxi_operation;
struct coxi_seat;

enum { COXI_COMING_BUCKETS = 256 };

/* Closures and operations that have an id, and that the loop has not taken in yet: both
 * lists by rising id. */
struct coxi_intake {
    struct coxi_list closures;
    struct coxi_operation *operations;
    struct coxi_operation *last_operation;
};

/* c->closures. Owned by the loop, except for fields that c->lock guards. */
struct coxi_closure_events; /* settle.h */
struct coxi_gate;           /* gate.h */

struct coxi_closures {
    /* closures and operations by id: see coxi_closures_get */
    struct coxi_window unsettled;
    struct coxi_window replays; /* closures that are replayed, by id */

    /* ---- queued, and on their way */
    struct coxi_list waiting;       /* WAITING */
    struct coxi_queue queue;        /* QUEUED, for any worker */
    struct coxi_queue replay_queue; /* closures that run while ps are recovered */
    struct coxi_queue remake_queue; /* other closures that run again (kept.c) */
    /* QUEUED in any queue, also in those of single workers */
    size_t n_queued;
    ptrdiff_t waiting_change; /* added to c->life.n_waiting at the end of this turn */
    struct coxi_pool pool;    /* READY workers, by their room */
    struct coxi_seat *collected; /* seats for which a dispatch is being made */
    struct coxi_seat *owners;    /* seats that have a queue of their own, or had one */
    bool recalled; /* all attempts were cancelled, because of an error or at close */

    /* ---- inputs, and results that are kept */
    struct coxi_input *inputs_settled; /* inputs whose futures are settled */
    struct coxi_closure *begun;        /* closures that run again, with inputs */
    /* kept results that will come here */
    struct coxi_kept *coming[COXI_COMING_BUCKETS];
    struct coxi_seat *droppers; /* seats with results that can be dropped */
    uint64_t n_collected;       /* number of backlogs collected so far */

    struct coxi_callbacks *callbacks; /* callback.h; guarded by c->lock */

    /* ---- their end */
    struct coxi_list settling; /* users are told of these at the end of this turn */
    bool voids_held;           /* questions to the ps have not been sent yet */
    size_t n_voiding;          /* closures about which the ps are being asked */
    struct coxi_manifest_progress progress; /* the progress of the settled calls */
    uint64_t watermark_sent;
    uint64_t watermark_sent_ms; /* when it was sent */

    /* ---- how long they wait (watch.c, losses.c) */
    /* for closures that wait or run while none is settled */
    struct coxi_patience patience;
    uint64_t settled_seen; /* how many were settled at the last look */
    /* since when closures wait and no worker is ready; 0: not so */
    uint64_t idle_since_ms;
    bool ps_away; /* a ps was away at the last tick */

    /* The events of interest to recovery; set while the loop runs. NULL: no ps comes
     * back. */
    _Atomic(const struct coxi_closure_events *) events;

    /* The order that closures must keep while an older client's work is left (gate.h);
     * NULL: none is left. The loop changes it, with c->lock. */
    _Atomic(const struct coxi_gate *) gate;

    /* ---- guarded by c->lock */
    /* The first call with a cursor that an error has cancelled; 0 again when the
     * program schedules the next one. */
    uint64_t first_cancelled;
    struct coxi_intake intake;
    /* futures of kept results that the loop must look at (kept.c) */
    struct coxi_closure *kept_listed;
    bool kept_closed; /* the loop will not look at this list any more */
};

/* coxi_closures_new is called first in cox_open (COX_ENOMEM); coxi_closures_free when
 * no future is left. */
int coxi_closures_new(struct cox_coordinator *c);
void coxi_closures_free(struct cox_coordinator *c);

/* The closure of that id if it is not settled; NULL if the id belongs to an operation.
 * Loop. */
struct coxi_closure *coxi_closures_get(const struct cox_coordinator *c,
                                       struct coxi_closure_id id);

/* Notes that the id belongs to an operation: it counts as not settled until it is taken
 * out of `unsettled`. COX_ENOMEM. Loop. */
int coxi_closures_put_operation(struct cox_coordinator *c, struct coxi_closure_id id);

#endif
