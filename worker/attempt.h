/*
 * The state of one attempt of a closure: what it was called with, what its step has collected
 * for each ps, the requests that it waits for, and how it ends. The calls of a step (pull.h,
 * push.h, metric.h, loss_scale.h, commit.h) work on it and do not know each other's state;
 * execute.h leads an attempt through its life.
 *
 * Threads: a slot; coxi_attempt_answered and _end also on a ps client's thread.
 */
#ifndef COXI_WORKER_ATTEMPT_H
#define COXI_WORKER_ATTEMPT_H

#include <pthread.h>

#include "common/dtype.h"
#include "worker/rows.h"
#include "worker/run.h"
#include "worker/running.h"

enum {
    COXI_STEP_TEXT_MAX = 512,
    COXI_PULLS_MAX = 8, /* begun and not waited for, in a step */
    COXI_FETCHES_MAX,   /* and one that is waited for at once */
};

/* An argument that this worker keeps: a result of an earlier closure. */
struct coxi_taken {
    uint64_t closure;  /* whose result it is */
    uint32_t position; /* among the arguments */
    const char *name;
    const char *result;
};

/* What a closure is called with, beside its head. */
struct coxi_call {
    const void *args;               /* packed */
    const struct coxi_taken *taken; /* more of them, by rising position */
    size_t args_len;
    uint32_t n_taken;
    bool keep;  /* what it returns is to stay here */
    bool alone; /* nothing runs beside it */
};

/* A gradient among the updates for a ps: its number, and its bytes in the payload. */
struct coxi_gradient {
    size_t update;
    size_t at;
    size_t len;
};

/* What an attempt has for one ps: the updates of the segment that is being collected. */
struct coxi_target {
    struct coxi_psc_request request; /* their commit */
    struct coxi_attempt *attempt;
    struct iovec segment;
    bool touched; /* a commit has been submitted: it may be applied */

    struct coxi_buffer updates; /* struct coxi_update */
    struct coxi_buffer update_payload;
    struct coxi_buffer gradients; /* struct coxi_gradient: which of them, where */
    /* where the list and the values of the update that is being added begin */
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

/* Memory that the calls of a running step work in. An attempt that commits needs none, so
 * there is one for each step that runs, not for each attempt. */
struct coxi_scratch {
    struct coxi_spare spare;                      /* first */
    struct coxi_spread spread;                    /* of the call that is being made */
    struct coxi_buffer places;                    /* of an update's rows */
    struct coxi_fetch *fetches[COXI_FETCHES_MAX]; /* pulls; NULL: not made yet */
};

struct coxi_attempt {
    struct cox_step step;    /* first: what the module sees */
    struct coxi_spare spare; /* while no closure uses it */
    struct coxi_run *run;
    struct coxi_running *running; /* while its step runs */
    struct coxi_scratch *scratch; /* while its step runs */
    const struct coxi_function *function;
    struct coxi_closure_head head;
    uint64_t layouts; /* that had come when it was dispatched */
    /* where schedules are: the closure's place, or as the step says */
    uint64_t rate_step;

    struct coxi_call call; /* what it points to stays until the step has returned */
    struct cox_value args[COXI_VALUES_MAX];
    size_t n_args;
    bool args_ready;
    struct coxi_held *held[COXI_VALUES_MAX]; /* whose results are among the arguments */
    size_t n_held;

    struct coxi_kept *making; /* the resource that the step makes, or NULL */
    struct coxi_buffer used;  /* struct coxi_kept *: resources that it was handed */
    const struct coxi_kept *unmade; /* one that it asked for and that is not there */

    /* what its step has collected, beside the targets */
    struct coxi_buffer results;
    struct coxi_buffer metrics; /* those of this segment: see metric.c */
    uint32_t n_pushes;          /* of its step, so far */
    uint32_t segment; /* that is being collected: as many flushes went before */
    uint32_t last_ps; /* where the segment before it went, the first of those */

    /* gradients are multiplied by the value of `scale`; NULL and 0: by none */
    const struct coxi_variable *scale;
    float loss_scale;
    const struct coxi_variable *told; /* the loss scale that hears of this step */
    bool overflowed;                  /* no gradient of the segment is to be applied */
    /* which gradient overflowed, if the worker has seen it */
    char overflow_text[COXI_STEP_TEXT_MAX];

    /* how it goes */
    int lost;      /* a pull or a flush failed, and not by the step's fault */
    int broken;    /* why an update was not collected, or a flush failed */
    int step_code; /* what cox_step_fail was given */
    bool step_failed;
    char broken_text[COXI_STEP_TEXT_MAX];
    char text[COXI_STEP_TEXT_MAX]; /* of the last error of a call */

    /* how it has ended */
    uint32_t run_us;
    int code;
    char code_text[COXI_STEP_TEXT_MAX];

    pthread_mutex_t lock; /* guards all struct coxi_answers; leaf */
    pthread_cond_t answered;
    struct coxi_answers commits; /* of the segment */
    uint64_t committed_us; /* when the last segment was submitted; 0: not measured */

    uint32_t *touched; /* room for n_targets */
    uint32_t n_targets;
    struct coxi_target targets[];
};

/*
 * Requests that the slot waits for. Call _expect before each request. When one has ended, or
 * could not be submitted, call _answered, on any thread (true: that was the last). _wait
 * returns when all have ended, with the first code that was not 0, and its text as the error
 * text. A ps that does not answer in time counts as lost: COX_EPSLOST.
 */
void coxi_attempt_expect(struct coxi_attempt *attempt, struct coxi_answers *answers);
bool coxi_attempt_answered(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           int code, const char *text);
int coxi_attempt_wait(struct coxi_attempt *attempt, struct coxi_answers *answers);

/* COX_ECANCELLED once the attempt is cancelled. */
int coxi_attempt_check(struct coxi_attempt *attempt);

/* The step cannot succeed any more, for the reason in the error text. Returns the code. */
int coxi_attempt_break(struct coxi_attempt *attempt, int code);

/* Sets and returns the error that a step gets for the resource `unmade`. */
int coxi_attempt_unmade(const struct coxi_attempt *attempt);

/* Forgets the updates that the step has collected for this segment. */
void coxi_attempt_drop(struct coxi_attempt *attempt);

/*
 * Reports the attempt's end to the client, as `code` says, and gives the attempt back to its
 * run. `committed`: it has a place in the commit window, which becomes free.
 */
void coxi_attempt_end(struct coxi_attempt *attempt, bool committed);

/* Gives the attempt back without a report: see coxi_attempt_end. */
void coxi_attempt_give_back(struct coxi_attempt *attempt, bool committed);

#endif
