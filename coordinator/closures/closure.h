/* A closure: what it is made of, its states. */
#ifndef COXI_COORDINATOR_CLOSURES_CLOSURE_H
#define COXI_COORDINATOR_CLOSURES_CLOSURE_H

#include "coordinator/coordinator.h"

/*
 * A closure, which is also the future that its user holds.
 *
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

struct coxi_callback;
struct coxi_input;
struct coxi_inputs; /* inputs.c */
struct coxi_kept;
struct coxi_seat;
struct coxi_second; /* stragglers.c */
struct coxi_waiter; /* future.c */

struct cox_future {
    /* The coordinator until it is settled (one: coxi_future_keep counts on it), the
     * user, each callback until it has been called. */
    atomic_int refs;
    uint64_t id;
    struct cox_coordinator *c; /* the user's reference holds one of it */
    struct cox_function
        *function;           /* NULL: not a call, but a create or assign (variable.c) */
    struct cox_future *next; /* in the intake, the queue, or its worker's list */
    struct cox_future *prev;
    struct coxi_seat *seat; /* ASSIGNED: who has it */

    /* A plain closure has none of these. Its way through the loop tests for them, and does
     * not call inputs.c, kept.c or stragglers.c to learn that nothing is to be done. */
    struct coxi_second *second;    /* its second attempt, or NULL */
    struct coxi_inputs *inputs;    /* of a call that takes futures; or NULL */
    struct coxi_input *dependents; /* inputs of others that wait for this */
    struct cox_future
        *replay; /* the one that this does again (recovery.c, kept.c); or NULL */
    struct coxi_kept *kept; /* of one whose results are to stay on a worker; or NULL */
    uint64_t epoch;         /* how often a ps had come back when it was assigned */
    uint32_t attempt;       /* the last one's number */
    uint32_t current;       /* that of the one which `worker` has */
    uint32_t only_worker;   /* 1 + index of it; 0: any */
    uint32_t home;          /* 1 + index of the worker that has its inputs; 0: none */
    uint32_t timeout_ms;    /* for an attempt to run; 0: none */
    uint64_t cursor;        /* its user's own */
    int8_t priority;
    uint8_t losses;
    uint8_t crashes; /* of its process, while it ran; `text` tells them */
    bool suspect; /* its process has crashed while it ran: it runs alone from now on */
    uint8_t overruns;
    uint32_t overran; /* the last attempt that is counted there: it may be told twice */
    bool cancelled;   /* it is to end as soon as its worker has let go of it */
    bool called_back; /* its worker was asked for it, for another one to run it */
    bool uncertain;   /* it may have applied what nobody has told of */
    bool applied;     /* all of it is, and only what it returned is not to be had */
    bool fetches;     /* no call: it is done when its input is at the client */
    bool urgent;      /* of the batch that is replayed, or needed by it (recovery.h) */
    bool abandoned;   /* a replay that counts for nothing: another ps has come back */
    bool held;        /* it waits for a write of the client before (resume_order.c) */
    bool inherited;   /* an older client left it, in its checkpoint (resume.h) */
    bool was_done;    /* and had settled it: some ps may have it without saying so */
    bool roams;       /* it does not wait for the worker that has its inputs any more */
    uint8_t
        state; /* enum coxi_closure_state; loop, and guarded by c->lock once settled */
    atomic_bool logged;  /* the replay log has it */
    atomic_bool settled; /* set under c->lock; the outcome does not change then */
    int code;
    int step_code;
    char *text; /* of an error */
    uint8_t *result;
    size_t result_len;
    struct cox_value *values; /* of the result; guarded by c->lock, as all below */
    size_t n_values;
    struct coxi_waiter *waiters;
    struct coxi_callback *callbacks; /* newest first */
    uint32_t args_len;
    uint64_t args[]; /* packed */
};

/*
 * One in nobody's hands, WAITING and without an id, with a reference and a copy of the packed
 * arguments (`args` NULL: with room for them). Every closure is made here. COX_ENOMEM. Any thread.
 */
int coxi_closure_new(struct cox_coordinator *c, struct cox_function *function,
                     const void *args, size_t args_len, struct cox_future **ret);

/* Where every state changes. Loop. */
void coxi_closure_set(struct cox_future *f, enum coxi_closure_state state);

#endif
