/* Closures that are not settled: where each of them is, and what the loop does about them in its
 * next turns. */
#ifndef COXI_COORDINATOR_CLOSURES_CLOSURES_H
#define COXI_COORDINATOR_CLOSURES_CLOSURES_H

#include "checkpoint/manifest.h"
#include "common/patience.h"
#include "common/window.h"
#include "coordinator/closures/pool.h"
#include "coordinator/closures/queue.h"

struct coxi_input;
struct coxi_kept;
struct coxi_operation;
struct coxi_seat;

enum { COXI_COMING_BUCKETS = 256 };

/* What has an id and has not been seen by the loop yet: both lists by rising id. */
struct coxi_intake {
    struct coxi_list closures;
    struct coxi_operation *operations;
    struct coxi_operation *last_operation;
};

/* c->closures. The loop's own, but for what c->lock guards. */
struct coxi_closure_events; /* settle.h */
struct coxi_gate;           /* gate.h */

struct coxi_closures {
    struct coxi_window unsettled; /* by id; operations, too: coxi_closures_get */
    struct coxi_window replays;   /* closures that are replayed, by id */

    /* ---- in line, and on their way */
    struct coxi_list waiting;       /* WAITING */
    struct coxi_queue queue;        /* QUEUED, for any worker */
    struct coxi_queue replay_queue; /* urgent: all that runs while ps are recovered */
    struct coxi_queue remake_queue; /* other closures that run again (kept.c) */
    size_t n_queued;                /* QUEUED, for some worker only, too */
    ptrdiff_t
        waiting_change; /* to be added to c->life.n_waiting at the end of this turn */
    struct coxi_pool pool;       /* READY workers, by the room they have */
    struct coxi_seat *collected; /* who has something to be sent, or may have had */
    struct coxi_seat *owners;    /* who has a queue of its own, or had one */
    bool recalled; /* workers have been told to hand back what has not started */

    /* ---- inputs, and results that are kept */
    struct coxi_input *inputs_settled; /* whose futures are settled */
    struct coxi_closure *begun;        /* closures that run again, with inputs */
    struct coxi_kept *coming[COXI_COMING_BUCKETS]; /* results that are to be here */
    struct coxi_seat *droppers; /* who keeps what nobody needs any more */
    uint64_t n_collected;       /* backlogs */

    /* ---- their end */
    struct coxi_list settling; /* to be told to the users at the end of this turn */
    bool voids_held;           /* what the ps are to be asked has not left yet */
    size_t n_voiding;          /* closures of which the ps are being asked */
    struct coxi_manifest_progress progress; /* of the calls that are settled */
    uint64_t watermark_sent;
    uint64_t watermark_sent_ms; /* when */

    /* ---- how long they wait (watch.c, losses.c) */
    struct coxi_patience patience; /* no closure is settled, though some wait or run */
    uint64_t settled_seen;         /* how many were, when that was last looked at */
    uint64_t idle_since_ms; /* closures wait and no worker is ready since; 0: not so */
    bool ps_away;           /* at the last tick */

    /* What recovery is told; set while the loop runs. NULL: no ps comes back. */
    _Atomic(const struct coxi_closure_events *) events;

    /* What closures have to pass while an older client's are left (gate.h); NULL: none are.
     * Changed by the loop, with c->lock. */
    _Atomic(const struct coxi_gate *) gate;

    /* ---- guarded by c->lock */
    /* The first call with a cursor that an error has cancelled; 0 from the next one on that
     * the program schedules. */
    uint64_t first_cancelled;
    struct coxi_intake intake;
    struct coxi_closure *kept_listed; /* for the loop to look at (kept.c) */
    bool kept_closed;                 /* it will not any more */
};

/* In cox_open, before anything else of it (COX_ENOMEM); when no future is left. */
int coxi_closures_new(struct cox_coordinator *c);
void coxi_closures_free(struct cox_coordinator *c);

/* The closure of that id if it is not settled; NULL where the id is an operation's. Loop. */
struct coxi_closure *coxi_closures_get(const struct cox_coordinator *c, uint64_t id);

/* The id is an operation's: it counts as not settled until it is taken out of `unsettled`.
 * COX_ENOMEM. Loop. */
int coxi_closures_put_operation(struct cox_coordinator *c, uint64_t id);

#endif
