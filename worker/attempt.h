/*
 * The state of one attempt of a closure: its arguments, what its step has collected for
 * each ps, the requests that it waits for, and its outcome. The calls of a step
 * (pull.h, push.h, accumulate.h, local.h, metric.h, loss_scale.h, commit.h) work on it
 * and do not know each other's state; execute.h leads an attempt through its life.
 *
 * Threads: a slot; coxi_attempt_answered and _end also on a ps client's thread.
 */
#ifndef COXI_WORKER_ATTEMPT_H
#define COXI_WORKER_ATTEMPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/dtype.h"
#include "common/sync.h"
#include "common/trace.h"
#include "worker/bases.h"
#include "worker/figures.h"
#include "worker/row_store.h"
#include "worker/rows.h"
#include "worker/run.h"
#include "worker/versions.h"

enum {
    COXI_STEP_TEXT_MAX = 512,
    COXI_PULLS_MAX = 8, /* the most pulls that a step may have under way */
    COXI_FETCHES_MAX,   /* one more, for a pull that is waited for at once */
};

/* ---- what a slot runs */

/*
 * What a slot runs at this moment, for other threads: they can cancel it, and see how
 * long it has run.
 *
 *   IDLE -> (taken from the line) RUNNING -> (its step has returned) IDLE
 *   IDLE -> (it waits for a place in the commit window) RETURNED -> IDLE
 *   RUNNING, RETURNED -> (recalled, or its client is gone) CANCELLED -> IDLE
 *   RUNNING -> (past its deadline) OVERRUN -> IDLE
 *   RUNNING, CANCELLED, OVERRUN -> (the process is about to end) ENDING
 *
 * Threads: the slot itself leaves IDLE and returns to it. Other threads make all other
 * changes, under the slots' lock. A slot holds that lock when it begins to run
 * something else, so what other threads see there stays the same while they hold the
 * lock. But the step may return meanwhile, so every change is an atomic exchange. Cost:
 * one exchange a step.
 */
enum coxi_running_state {
    COXI_RUN_IDLE = 0,
    COXI_RUN_RUNNING,
    COXI_RUN_RETURNED,
    COXI_RUN_CANCELLED,
    COXI_RUN_OVERRUN,
    COXI_RUN_ENDING,
};

struct coxi_reader;

struct coxi_running {
    atomic_uint state; /* enum coxi_running_state */
    /* when the step started, or began to count anew; 0: its time does not count now */
    atomic_uint_least64_t started_ns;
    struct coxi_recorder_slot *recorder; /* or NULL; fixed */

    struct coxi_mutex reading; /* after the slots' lock; before those of the reader */
    /* the reader that the step waits for (batches.h), or NULL */
    struct coxi_reader *reader COXI_GUARDED_BY(reading);

    /* guarded by the slots' lock; valid unless IDLE */
    struct coxi_run *run;
    struct coxi_closure_head head;
    uint64_t layouts;  /* layouts that the run had received when it came */
    uint32_t grace_ms; /* from a deadline to the end of the process */
    uint32_t slot;     /* its number; fixed */
    bool waited;       /* the slot's own: it had nothing to run before this */
    /* when the slot had last finished something; 0: never. The slot's own */
    uint64_t free_ns;
    /* ENDING, because the step did not return in its grace after OVERRUN */
    bool overran;
    uint64_t kill_at_ns; /* CANCELLED, OVERRUN: when to end the process */
};

/* For the slot, while it runs something: true if that was cancelled for any reason. */
static inline bool coxi_running_cancelled(struct coxi_running *running)
{
    unsigned state = atomic_load_explicit(&running->state, memory_order_relaxed);
    return state != COXI_RUN_RUNNING && state != COXI_RUN_RETURNED;
}

/* Changes the state from `from` to `to`; false: it was not `from`. */
static inline bool coxi_running_change(struct coxi_running *running,
                                       enum coxi_running_state from,
                                       enum coxi_running_state to)
{
    unsigned expected = from;
    return atomic_compare_exchange_strong(&running->state, &expected, to);
}

/* The slot: sets IDLE and returns the state before. Does not return if the process is
 * about to end, so that the recorder still says what ran. */
static inline enum coxi_running_state coxi_running_end(struct coxi_running *running)
{
    unsigned state = atomic_exchange(&running->state, COXI_RUN_IDLE);
    if (state == COXI_RUN_ENDING) {
        for (;;) {
            (void)pause();
        }
    }
    return (enum coxi_running_state)state;
}

/* ---- the attempt */

/* An argument that this worker keeps: a result of an earlier closure. */
struct coxi_taken {
    uint64_t closure;  /* the closure whose result it is */
    uint32_t position; /* among the arguments */
    const char *name;
    const char *result;
};

/* The arguments and conditions of a call, besides its head. */
struct coxi_call {
    const void *args;               /* packed */
    const struct coxi_taken *taken; /* kept arguments, by rising position */
    size_t args_len;
    uint32_t n_taken;
    struct coxi_round_head round;
    bool keep;  /* the step's results stay on this worker */
    bool alone; /* nothing may run beside it */
};

/* A gradient among the updates for a ps: the number of its update, and its bytes in the
 * payload. */
struct coxi_gradient {
    size_t update;
    size_t at;
    size_t len;
};

/* What an attempt has collected for one ps: the updates of the current segment. */
struct coxi_target {
    struct coxi_psc_request request; /* the commit of these updates */
    struct coxi_attempt *attempt;
    struct iovec segment;
    bool touched; /* a commit was submitted, and may have been applied */

    struct coxi_buffer updates; /* struct coxi_update */
    /* u64, for each update the version of the values that the step has pulled last; 0:
     * none, and so for updates beyond its end */
    struct coxi_buffer pulled;
    struct coxi_buffer update_payload;
    /* struct coxi_gradient: the updates that are gradients */
    struct coxi_buffer gradients;
    /* where the list and the values of the current update begin */
    size_t list_at;
    size_t values_at;
};

/* Requests that are under way together. Guarded by the attempt's lock. */
struct coxi_answers {
    uint32_t n_pending;
    int code; /* the first that was not 0 */
    char text[COXI_STEP_TEXT_MAX];
};

struct coxi_fetch; /* pull.c */

/* Memory that the calls of a running step work in. There is one for each running step,
 * not for each attempt, because an attempt that commits needs none. */
struct coxi_scratch {
    struct coxi_spare spare;       /* must be the first member */
    struct coxi_spread spread;     /* of the current call */
    struct coxi_buffer places;     /* of the rows of an update */
    struct coxi_versions versions; /* of what the step has pulled */
    struct coxi_bases bases; /* ... and the values, where gradients are compensated */
    struct coxi_fetch *fetches[COXI_FETCHES_MAX]; /* pulls; NULL: not made yet */

    /* rows that the step keeps between its calls */
    struct coxi_row_stores sums;   /* of the gradients that it accumulates */
    struct coxi_row_stores copies; /* for local steps; see local.c */
    struct coxi_row_stores merged; /* of the gradient of a local step */
    struct coxi_row_budget budget; /* for all of these but `merged` */
    struct coxi_row_work row_work;
    struct coxi_buffer local_calls; /* see local.c: of a local pull, ... */
    struct coxi_buffer local_pulls; /* ... and struct cox_pull: what it has to pull */
};

struct coxi_attempt {
    struct cox_step step;    /* first: the module sees only this */
    struct coxi_spare spare; /* in the run's list while no closure uses the attempt */
    struct coxi_run *run;
    struct coxi_running *running; /* while its step runs */
    struct coxi_scratch *scratch; /* while its step runs */
    const struct coxi_function *function;
    struct coxi_closure_head head;
    uint64_t layouts; /* layouts that the run had received when the closure came */
    /* the step of learning rate schedules: the closure's place, or the step's own
     * choice */
    uint64_t rate_step;
    uint64_t seed; /* cox_step_seed */

    struct coxi_call call; /* its pointers are valid until the step has returned */
    struct cox_value args[COXI_VALUES_MAX];
    size_t n_args;
    bool args_ready;
    /* kept results that are among the arguments */
    struct coxi_held *held[COXI_VALUES_MAX];
    size_t n_held;

    struct coxi_batches *batches; /* batches.h; NULL: the step has asked for none */
    int unread; /* why its task cannot be read, or 0; the text is broken_text */

    struct coxi_kept *making; /* the resource that the step makes, or NULL */
    struct coxi_buffer used;  /* struct coxi_kept *: the resources that the step uses */
    /* a resource that the step asked for and that could not be made, or NULL */
    const struct coxi_kept *unmade;

    /* what the step has collected, besides `targets` */
    struct coxi_buffer results;
    struct coxi_buffer scalars; /* packed (common/scalars.h) */
    uint32_t n_scalars;
    struct coxi_buffer metrics; /* of this segment; see metric.c */
    uint32_t n_pushes;          /* updates that the step has pushed so far */
    uint32_t segment; /* the segment being collected: the number of flushes before it */
    uint32_t last_ps; /* the first ps to which the previous segment went */

    bool has_awaited;        /* a pull of the step has awaited the end of a round */
    float weight;            /* how much the closure counts in its round */
    atomic_bool round_ended; /* a ps that has its commit has the end of the round */

    /* gradients are multiplied by `loss_scale`, the value of `scale`; NULL and 0: not
     * scaled */
    const struct coxi_variable *scale;
    float loss_scale;
    /* the loss scale that this step updates, or NULL */
    const struct cox_variable *told;
    bool overflowed; /* apply no gradient of this segment */
    /* which gradient overflowed, if the worker saw it */
    char overflow_text[COXI_STEP_TEXT_MAX];

    /* errors so far */
    /* code of a pull or flush that failed although the step made no mistake, or 0 */
    int lost;
    /* code of an update that was not collected or a flush that failed, or 0 */
    int broken;
    int step_code; /* given to cox_step_fail, or returned by the step */
    bool step_failed;
    char broken_text[COXI_STEP_TEXT_MAX];
    char text[COXI_STEP_TEXT_MAX]; /* of the last call that failed */

    /* the outcome */
    uint32_t run_us;
    int code;
    char code_text[COXI_STEP_TEXT_MAX];

    struct coxi_mutex lock; /* guards all struct coxi_answers; leaf */
    pthread_cond_t answered;
    struct coxi_answers commits;  /* of the segment */
    struct coxi_step_times times; /* where its time has gone so far */
    /* when the step had returned and its commit could be submitted */
    uint64_t returned_ns;

    uint32_t *touched; /* n_targets entries */
    uint32_t n_targets;
    struct coxi_target targets[];
};

/*
 * Requests that the slot waits for. Call _expect before each request. When one has
 * ended, or could not be submitted, call _answered, on any thread (true: that was the
 * last). _wait returns when all have ended, with the first code that was not 0, and its
 * text as the error text, and adds the time that it has waited to *waited_us. A ps that
 * does not answer in time counts as lost: COX_EPSLOST.
 */
void coxi_attempt_expect(struct coxi_attempt *attempt, struct coxi_answers *answers);
bool coxi_attempt_answered(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           int code, const char *text);
int coxi_attempt_wait(struct coxi_attempt *attempt, struct coxi_answers *answers,
                      uint32_t *waited_us);

/* _wait for the end of a round, which other closures have to reach: that is not the step's
 * time, which begins anew. Once in an attempt, so that no step lives for ever by pulling
 * again and again. */
int coxi_attempt_await_end(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           uint32_t *waited_us);

/* True if somebody watches the worker, so that it counts (worker/figures.h). */
static inline bool coxi_attempt_is_watched(const struct coxi_attempt *attempt)
{
    const struct coxi_figures *figures = attempt->run->figures;
    return figures != NULL &&
           atomic_load_explicit(&figures->watched, memory_order_relaxed);
}

/* Notes a span of the attempt that ends now, if there is a trace. */
static inline void coxi_attempt_trace(const struct coxi_attempt *attempt,
                                      uint64_t begun_ns, enum coxi_trace_kind kind)
{
    if (coxi_trace_is_on()) {
        coxi_trace_end(begun_ns,
                       &(struct coxi_trace_of){.kind = kind,
                                               .run = attempt->run->session.run,
                                               .closure = attempt->head.closure});
    }
}

/* Notes the span of a request to a ps, whose message names `flow`. */
static inline void coxi_attempt_trace_ask(const struct coxi_attempt *attempt,
                                          uint64_t begun_ns, enum coxi_trace_kind kind,
                                          uint32_t ps, uint64_t flow)
{
    coxi_trace_end(begun_ns, &(struct coxi_trace_of){.kind = kind,
                                                     .arg = ps,
                                                     .run = attempt->run->session.run,
                                                     .closure = attempt->head.closure,
                                                     .flow = flow});
}

/* COX_ECANCELLED once the attempt is cancelled. */
int coxi_attempt_check(struct coxi_attempt *attempt);

/*
 * The step cannot succeed any more, for the reason in the error text. Returns the code.
 */
int coxi_attempt_break(struct coxi_attempt *attempt, int code);

/* Sets and returns the error that a step gets for the resource `unmade`. */
int coxi_attempt_unmade(const struct coxi_attempt *attempt);

/* Forgets the updates that the step has collected for this segment. */
void coxi_attempt_drop(struct coxi_attempt *attempt);

/* Reports the attempt's end to the client, as `code` says, and gives the attempt back
 * to its run. `committed`: it has a place in the commit window, which becomes free. */
void coxi_attempt_end(struct coxi_attempt *attempt, bool committed);

/* Like coxi_attempt_end, but without a report. */
void coxi_attempt_give_back(struct coxi_attempt *attempt, bool committed);

#endif
