/* A closure: its parts and its states; lists and queues of closures; and all closures
 * that are not settled. */
#ifndef COXI_COORDINATOR_CLOSURES_CLOSURE_H
#define COXI_COORDINATOR_CLOSURES_CLOSURE_H

#include <assert.h>
#include <stddef.h>

#include "checkpoint/manifest.h"
#include "common/sync.h"
#include "common/window.h"
#include "coordinator/closures/future.h"
#include "coordinator/closures/pool.h"
#include "coordinator/closures/round_state.h"

/*
 * The states of a closure, and how it changes them:
 *
 *   WAITING -> QUEUED             its inputs are done
 *   WAITING -> FAILED | CANCELLED an input failed or was cancelled; or it is cancelled
 *   QUEUED -> ASSIGNED            sent to a worker
 *   ASSIGNED -> QUEUED            its worker is lost, hands it back, crashed or overran
 *   QUEUED | ASSIGNED -> WAITING  its worker goes, and it was to run there because its
 *                                 inputs are kept there
 *   ASSIGNED -> DONE | FAILED | CANCELLED
 *   ASSIGNED -> STAGED            of a round: its commits wait on the ps (round.h)
 *   STAGED -> QUEUED | WAITING    a ps has lost them before the round was decided
 *   STAGED -> DONE | FAILED | CANCELLED
 *   QUEUED -> FAILED | CANCELLED  no worker, ps lost; cancelled, error elsewhere, close
 *   any but the last -> VOIDING   it ends, but a part of it may be applied without a
 *                                 report: the ps are asked (voiding.c)
 *   VOIDING -> DONE | FAILED | CANCELLED
 *   VOIDING -> QUEUED | WAITING   it was done, and a ps has lost that meanwhile; or
 *                                 all of it is applied, and it runs again for its
 *                                 results
 *   VOIDING -> STAGED             its round is applied, so it cannot be cancelled
 *
 * A closure that is cancelled while it is ASSIGNED stays so, marked, until its worker
 * has answered or is lost. A second attempt (stragglers.c) changes no state.
 */
enum coxi_closure_state {
    COXI_WAITING,
    COXI_QUEUED,
    COXI_ASSIGNED,
    COXI_STAGED,
    COXI_VOIDING,
    COXI_DONE_OK,
    COXI_FAILED,
    COXI_CANCELLED,
};

struct coxi_handout; /* handout.h */
struct coxi_logged;  /* logged.h */
struct coxi_input;
struct coxi_inputs; /* inputs_internal.h */
struct coxi_kept;   /* kept.h */
struct coxi_round;  /* round.h */
struct coxi_seat;
struct coxi_second; /* stragglers.h */

/* The options of the call (cox_call). */
struct coxi_asked {
    /* The cursor: the program's own mark of its progress; 0: none. */
    uint64_t cursor;
    /* How long an attempt may run; 0: for ever. */
    uint32_t timeout_ms;
    /* The only worker that may run it; NULL: any may. */
    struct coxi_seat *only;
    int8_t priority;
};

/* The attempts of a closure, numbered from 1. */
struct coxi_attempts {
    /* How often any ps had come back when the last attempt was assigned. */
    uint64_t epoch;
    /* The number of the last attempt; 0: there was none. */
    uint32_t last;
    /* The number of the attempt that the worker (`seat`) has. */
    uint32_t current;
    /* Its worker was asked to hand it back, so that another worker can run it. */
    bool called_back;
    /* It ends as soon as its worker has answered or is lost. */
    bool cancelled;
};

/* What is known of the closure's effect on the ps before it is settled. */
struct coxi_effect {
    /* An attempt is over without a report of what it has applied. Stays true while the
     * run goes on. */
    bool uncertain;
    /* All of it is applied; only its results are missing. */
    bool applied;
    /* It failed, and the ps could not be asked: a part of it may be applied. */
    bool unknown;
};

/* What has gone wrong with the attempts. Too many mishaps end the closure
 * (attempts.c). */
struct coxi_mishaps {
    /* How its process crashed while the closure ran: "worker 3: Segmentation fault,
     * ..."; or NULL. */
    char *crash_text;
    /* The last attempt that `overruns` counts, because an overrun may be reported
     * twice. */
    uint32_t last_overrun;
    /* Workers that were lost while the closure may have run there. */
    uint8_t losses;
    /* Crashes of the process while the closure ran there alone. */
    uint8_t crashes;
    /* Attempts that ran for longer than timeout_ms. */
    uint8_t overruns;
    /* The process crashed while the closure ran: from now on it runs alone. */
    bool suspect;
};

/* How the closure relates to the work that an older client has left
 * (checkpoints/resume_internal.h). */
struct coxi_older {
    /* An older client left it in its checkpoint. */
    bool inherited;
    /* The older client had settled it as done: some ps may have applied it without
     * saying so. */
    bool was_done;
    /* It belongs to this program, and waits for a write of the older client. */
    bool held;
};

/*
 * Of a closure that repeats another one: for a ps that has come back (recovery), or for
 * the results that the other one kept (kept.c). It has the id of the other one, and
 * nobody holds its future.
 */
struct coxi_rerun {
    struct coxi_closure *of; /* the other closure; a reference */
    /* It belongs to the batch that is replayed, or that batch needs its results
     * (recovery.h). */
    bool urgent;
    /* Its outcome no longer counts, because another ps has come back. */
    bool abandoned;
};

/* How a closure ends. */
struct coxi_ending {
    enum coxi_closure_state state; /* COXI_DONE_OK, COXI_FAILED, COXI_CANCELLED */
    int code;
    const char *text;        /* copied; NULL: none */
    const uint32_t *touched; /* done: the ps that its last attempt says it touched */
    size_t n_touched;
};

struct coxi_closure {
    /* The user's handle. The first field, because both are one allocation, which is
     * freed with the last reference. */
    struct cox_future future;
    struct cox_function *function;
    /* Links in the intake, in a queue, in its worker's list, or in the list of settled
     * closures. */
    struct coxi_closure *next;
    struct coxi_closure *prev;
    /* ASSIGNED: the worker that has it. */
    struct coxi_seat *seat;

    /* A plain closure has none of these. The loop tests the pointers on its way, and
     * does not call inputs.c, kept.c or stragglers.c in vain. */
    struct coxi_second *second;    /* its second attempt */
    struct coxi_inputs *inputs;    /* of a call that takes futures */
    struct coxi_input *dependents; /* inputs of other closures that wait for this one */
    struct coxi_rerun *rerun;      /* of a closure that repeats another */
    struct coxi_kept *kept;        /* of a closure whose results stay on a worker */
    struct coxi_handout *task;     /* of a closure with a task of a data set */
    struct coxi_round *round;      /* of a closure in a round, and of its end */
    struct coxi_logged *logged_scalars; /* of a closure whose step has logged some */

    /* When it was scheduled (coxi_now_us); 0: it is not timed (base/counts.h). */
    uint64_t scheduled_us;
    struct coxi_asked asked;
    struct coxi_attempts attempts;
    struct coxi_mishaps mishaps;
    struct coxi_effect effect;
    struct coxi_older older;
    /* It has, or had, a task of a data set, which tells of its errors. Here, because
     * there is a gap: closures in the queue are many. */
    bool quiet;
    /* It waits for earlier rounds. */
    bool held_by_round;

    /* The worker that has its inputs, and on which alone it may then run; or NULL. */
    struct coxi_seat *home;
    /* It no longer waits for the worker that has its inputs. */
    bool roams;
    /* cox_future_fetch: it has no step, and is done as soon as its only input is at the
     * client. */
    bool fetches;
    /* enum coxi_closure_state. Owned by the loop; once the closure is settled, guarded
     * by c->lock. */
    uint8_t state;
    /* The replay log has it. */
    atomic_bool logged;

    uint32_t args_len;
    uint64_t args[]; /* packed */
};

static_assert(offsetof(struct coxi_closure, future) == 0, "they share an address");

/* The closure of a future; each future has one. */
static inline struct coxi_closure *coxi_closure_of(struct cox_future *future)
{
    return (struct coxi_closure *)future;
}

static inline bool coxi_closure_is_over(const struct coxi_closure *closure)
{
    return closure->state == COXI_DONE_OK || closure->state == COXI_FAILED ||
           closure->state == COXI_CANCELLED;
}

/* The parameters of a new closure. */
struct coxi_closure_spec {
    struct cox_function *function;
    const void *args; /* packed; copied; NULL: space for them is left */
    size_t args_len;
    struct coxi_asked asked;
    struct coxi_inputs *inputs; /* taken on success; or NULL */
    /* It is WAITING at first although it has no inputs; otherwise QUEUED. */
    bool waits;
};

/* Makes a closure that is in no list and has no id, with one reference. Every closure
 * is made here. COX_ENOMEM. Any thread. */
int coxi_closure_new(struct cox_coordinator *c, const struct coxi_closure_spec *spec,
                     struct coxi_closure **ret);

/* All changes of state happen here. Loop. */
void coxi_closure_set(struct coxi_closure *closure, enum coxi_closure_state state);

/* ---- lists of closures, and queues of them by priority: loop; all O(1) */

struct coxi_list {
    struct coxi_closure *first;
    struct coxi_closure *last;
    size_t n;
};

/* Sorted by priority; within a priority the oldest first. */
enum { COXI_LEVELS = COX_PRIORITY_MAX - COX_PRIORITY_MIN + 1 };

struct coxi_queue {
    struct coxi_list levels[COXI_LEVELS];
    size_t n;
};

void coxi_list_append(struct coxi_list *list, struct coxi_closure *closure);
void coxi_list_remove(struct coxi_list *list, struct coxi_closure *closure);

/* Puts a closure after (_prepend: before) all others of its priority. */
void coxi_queue_append(struct coxi_queue *queue, struct coxi_closure *closure);
void coxi_queue_prepend(struct coxi_queue *queue, struct coxi_closure *closure);
void coxi_queue_remove(struct coxi_queue *queue, struct coxi_closure *closure);

/* The oldest closure of the highest priority, or NULL. */
struct coxi_closure *coxi_queue_first(const struct coxi_queue *queue);

/* ---- closures that are not settled */

struct coxi_operation;

enum { COXI_COMING_BUCKETS = 256 };

/* Closures and operations that have an id, and that the loop has not taken in yet: both
 * lists by rising id. */
struct coxi_intake {
    struct coxi_list closures;
    struct coxi_operation *operations;
    struct coxi_operation *last_operation;
};

struct coxi_closure_events; /* settle.h */
struct coxi_gate;           /* gate.h */
struct coxi_handout_events; /* handout.h */

/*
 * c->closures: the closures that are not settled, where each of them is, and the loop's
 * tasks for its next turns. Owned by the loop, except for fields that c->lock guards.
 */
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
    /* kept results that the client has asked workers for */
    struct coxi_kept *coming[COXI_COMING_BUCKETS];
    struct coxi_seat *droppers; /* seats with results that can be dropped */
    uint64_t n_collected;       /* number of backlogs collected so far */

    struct coxi_callbacks *callbacks; /* callback.h; guarded by c->lock */

    /* ---- their end */
    struct coxi_list settling; /* users are told of these at the end of this turn */
    bool voids_held;           /* questions to the ps have not been sent yet */
    bool names_told;  /* an event has said that there are too many names of scalars */
    size_t n_voiding; /* closures about which the ps are being asked */
    struct coxi_manifest_progress progress; /* the progress of the settled calls */
    uint64_t watermark_sent;
    uint64_t watermark_sent_ms; /* when it was sent */

    /* ---- how long they wait (watch.c, losses.c) */
    /* for closures that wait or run while none is settled */
    struct coxi_patience patience;
    uint64_t settled_seen; /* how many were settled at the last look */
    /* since when closures have waited without a ready worker; 0: they do not */
    uint64_t idle_since_ms;
    bool ps_away; /* a ps was away at the last tick */

    /* The events of interest to recovery; set while the loop runs. NULL: no ps comes
     * back. */
    _Atomic(const struct coxi_closure_events *) events;

    /* The events of interest to data sets; set before the loop runs. */
    const struct coxi_handout_events *handouts;

    struct coxi_rounds_state rounds;

    /* Grows whenever the ps have something that closures dispatched from now on must
     * see. Any thread. */
    atomic_uint_least64_t view;

    /* The order that closures must keep while an older client's work is left (gate.h);
     * NULL: none is left. The loop changes it, with c->lock. */
    _Atomic(const struct coxi_gate *) gate;

    /* ---- guarded by c->lock */
    /* The first call with a cursor that an error has cancelled; 0 again when the
     * program schedules the next one. */
    uint64_t first_cancelled;
    struct coxi_intake intake;
    /* How many of the calls in life.n_waking have woken the loop; cox_close waits for
     * the others. Atomic, because these calls no longer hold the lock. */
    atomic_uint_least64_t n_woken;
    /* futures of kept results that the loop must look at (kept.c) */
    struct coxi_closure *kept_listed;
    bool kept_closed; /* the loop will not look at this list any more */
};

/* coxi_closures_new is called first in cox_open (COX_ENOMEM); coxi_closures_free when
 * no future is left. */
int coxi_closures_new(struct cox_coordinator *c);
void coxi_closures_free(struct cox_coordinator *c);

/* The closure with id `id` if it is not settled; NULL if the id belongs to an
 * operation. Loop. */
struct coxi_closure *coxi_closures_get(const struct cox_coordinator *c,
                                       struct coxi_closure_id id);

/* Notes that the id belongs to an operation: it counts as not settled until it is taken
 * out of `unsettled`. COX_ENOMEM. Loop. */
int coxi_closures_put_operation(struct cox_coordinator *c, struct coxi_closure_id id);

#endif
