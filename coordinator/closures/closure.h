/* A closure: what the loop moves. What it is made of, its states. */
#ifndef COXI_COORDINATOR_CLOSURES_CLOSURE_H
#define COXI_COORDINATOR_CLOSURES_CLOSURE_H

#include <assert.h>
#include <stddef.h>

#include "coordinator/closures/future.h"
#include "schema/maybe.h"

/*
 *   WAITING -> QUEUED             the futures that it takes are done
 *   WAITING -> FAILED | CANCELLED one of them is not; or it is cancelled
 *   QUEUED -> ASSIGNED            sent to a worker
 *   ASSIGNED -> QUEUED            its worker is lost, hands it back, crashed or overran
 *   QUEUED | ASSIGNED -> WAITING  so; and it was to run where its inputs are kept
 *   ASSIGNED -> DONE | FAILED | CANCELLED
 *   QUEUED -> FAILED | CANCELLED  no worker, ps lost; cancelled, error elsewhere, close
 *   any but the last -> VOIDING   it is to end, but something of it may be applied that
 *                                 nobody has told of: the ps are asked (voiding.c)
 *   VOIDING -> DONE | FAILED | CANCELLED
 *   VOIDING -> QUEUED | WAITING   it was done, and a ps has lost that meanwhile; or all of
 *                                 it is applied, and it runs again for what it returned
 *
 * A closure that is to be cancelled while it is ASSIGNED stays so, marked, until its
 * worker has answered or is lost. A second attempt (stragglers.c) changes no state.
 */
enum coxi_closure_state {
    COXI_WAITING,
    COXI_QUEUED,
    COXI_ASSIGNED,
    COXI_VOIDING,
    COXI_DONE_OK,
    COXI_FAILED,
    COXI_CANCELLED,
};

struct coxi_input;
struct coxi_inputs; /* inputs.c */
struct coxi_kept;   /* kept.h */
struct coxi_seat;
struct coxi_second; /* stragglers.h */

/* What the program asks for with the call (cox_call). */
struct coxi_asked {
    /* The program's own mark of how far it has come; 0: none. */
    uint64_t cursor;
    /* How long an attempt may run; 0: for ever. */
    uint32_t timeout_ms;
    /* The only worker that may run it; none: any may. */
    struct coxi_maybe only_worker;
    int8_t priority;
};

/* Its attempts, which are numbered from 1 on. */
struct coxi_attempts {
    /* How often a ps had come back when the last one was assigned. */
    uint64_t epoch;
    /* The number of the last one; 0: there was none. */
    uint32_t last;
    /* The number of the one that its worker (`seat`) has. */
    uint32_t current;
    /* Its worker was asked to hand it back, for another one to run it. */
    bool called_back;
    /* It is to end as soon as its worker has let go of it. */
    bool cancelled;
};

/* What is known of its effect on the ps before it is settled. */
struct coxi_effect {
    /* An attempt is over, and nobody has told what of it is applied. Never becomes false again
     * while the run goes on. */
    bool uncertain;
    /* All of it is applied; only what it returned is missing. */
    bool applied;
};

/* What has gone wrong with its attempts. Too much of it ends the closure (attempts.c). */
struct coxi_mishaps {
    /* How its process crashed while it ran: "worker 3: Segmentation fault, ..."; or NULL. */
    char *crash_text;
    /* The last attempt that `overruns` counts, because it may be told twice. */
    uint32_t last_overrun;
    /* Workers that were lost while it may have run there. */
    uint8_t losses;
    /* Crashes of its process while it ran there alone. */
    uint8_t crashes;
    /* Attempts that ran for longer than timeout_ms. */
    uint8_t overruns;
    /* Its process crashed while it ran: it runs alone from now on. */
    bool suspect;
};

/* How it stands to what an older client has left (checkpoints/resume_internal.h). */
struct coxi_older {
    /* An older client left it, in its checkpoint. */
    bool inherited;
    /* And had settled it as done: some ps may have it without saying so. */
    bool was_done;
    /* It is this program's, and waits for a write of the older client. */
    bool held;
};

/* Of a closure that does again what another one has done: for a ps that has come back (recovery),
 * or for what that one kept (kept.c). It has that one's id, and nobody holds its future. */
struct coxi_rerun {
    struct coxi_closure *of; /* a reference */
    /* It is part of the batch that is replayed, or needed by it (recovery.h). */
    bool urgent;
    /* It counts for nothing any more, because another ps has come back. */
    bool abandoned;
};

struct coxi_closure {
    /* What its user holds. First: one allocation, freed when its last reference goes. */
    struct cox_future future;
    struct cox_function *function;
    /* In the intake, a queue, its worker's list, or what is settled. */
    struct coxi_closure *next;
    struct coxi_closure *prev;
    /* ASSIGNED: the worker that has it. */
    struct coxi_seat *seat;

    /* A plain closure has none of these. Its way through the loop tests for them, and does
     * not call inputs.c, kept.c or stragglers.c to learn that nothing is to be done. */
    struct coxi_second *second;    /* its second attempt */
    struct coxi_inputs *inputs;    /* of a call that takes futures */
    struct coxi_input *dependents; /* inputs of others that wait for this */
    struct coxi_rerun *rerun;      /* of one that runs again */
    struct coxi_kept *kept;        /* of one whose results are to stay on a worker */

    struct coxi_asked asked;
    struct coxi_attempts attempts;
    struct coxi_mishaps mishaps;
    struct coxi_effect effect;
    struct coxi_older older;

    /* The worker that has its inputs, and alone may run it then. */
    struct coxi_maybe home;
    /* It does not wait for the worker that has its inputs any more. */
    bool roams;
    /* cox_future_fetch: no step, but done as soon as its only input is at the client. */
    bool fetches;
    /* enum coxi_closure_state. The loop's, and guarded by c->lock once it is settled. */
    uint8_t state;
    /* The replay log has it. */
    atomic_bool logged;

    uint32_t args_len;
    uint64_t args[]; /* packed */
};

static_assert(offsetof(struct coxi_closure, future) == 0, "they share an address");

/* The closure of a future: each has one. */
static inline struct coxi_closure *coxi_closure_of(struct cox_future *future)
{
    return (struct coxi_closure *)future;
}

/* What a closure is made of. */
struct coxi_closure_spec {
    struct cox_function *function;
    const void *args; /* packed, copied; NULL: leaves room for them */
    size_t args_len;
    struct coxi_asked asked;
    struct coxi_inputs *inputs; /* taken if it succeeds; or NULL */
    /* It is WAITING at first though it takes nothing; else QUEUED. */
    bool waits;
};

/* One in nobody's hands, without an id, with one reference. Every closure is made here.
 * COX_ENOMEM. Any thread. */
int coxi_closure_new(struct cox_coordinator *c, const struct coxi_closure_spec *spec,
                     struct coxi_closure **ret);

/* Where every state changes. Loop. */
void coxi_closure_set(struct coxi_closure *closure, enum coxi_closure_state state);

#endif
