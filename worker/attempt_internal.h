/*
 * What attempt.c (an attempt's life), commit.c, step_api.c (what its step calls), pull.c,
 * push.c and metric.c share.
 */
#ifndef COXI_WORKER_ATTEMPT_INTERNAL_H
#define COXI_WORKER_ATTEMPT_INTERNAL_H

#include <pthread.h>

#include "common/dtype.h"
#include "worker/attempt.h"
#include "worker/rows.h"

enum {
    COXI_STEP_TEXT_MAX = 512,
    COXI_PULLS_MAX = 8, /* begun and not waited for, in a step */
    COXI_FETCHES_MAX,   /* and one that is waited for at once */
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
    size_t list_at; /* of the update that is being added: where its parts begin */
    size_t values_at;
};

/* Requests that are under way together. Guarded by the attempt's lock. */
struct coxi_answers {
    uint32_t n_pending;
    int code; /* the first that was not 0 */
    char text[COXI_STEP_TEXT_MAX];
};

struct coxi_fetch;

/* What a step's calls work in: there are as many as steps that run, for an attempt that
 * commits has no use for it. */
struct coxi_scratch {
    struct coxi_scratch *next;
    struct coxi_spread spread;                    /* of the call that is being made */
    struct coxi_buffer places;                    /* of an update's rows */
    struct coxi_fetch *fetches[COXI_FETCHES_MAX]; /* pulls; NULL: not made yet */
};

struct coxi_attempt {
    struct cox_step step; /* what the module sees: first */
    struct coxi_run *run;
    struct coxi_running *running; /* while its step runs */
    const struct coxi_function *function;
    struct coxi_attempt *next;
    struct coxi_closure_head head;
    uint64_t layouts; /* that had come when it was dispatched */
    uint64_t
        rate_step; /* where schedules are: the closure's place, or as the step says */
    struct coxi_call call; /* what it points to stays until the step has returned */
    struct cox_value args[COXI_VALUES_MAX];
    size_t n_args;
    bool args_ready;
    struct coxi_held *held[COXI_VALUES_MAX]; /* whose results are among the arguments */
    size_t n_held;
    struct coxi_buffer results;
    uint32_t run_us;
    int step_code; /* what cox_step_fail was given */
    bool step_failed;
    int broken; /* why an update was not collected, or a flush failed */
    char broken_text[COXI_STEP_TEXT_MAX];
    uint32_t n_pushes; /* of its step, so far */
    int lost;          /* a pull or a flush failed, and not by the step's fault */
    uint32_t segment;  /* that is being collected: as many flushes went before */
    uint32_t last_ps;  /* where the segment before it went, the first of those */
    const struct coxi_variable
        *scale;                       /* its gradients are multiplied by this one ... */
    float loss_scale;                 /* ... of this value; NULL, 0: by none */
    const struct coxi_variable *told; /* the loss scale that hears of this step */
    bool overflowed;                  /* no gradient of the segment is to be applied */
    char
        overflow_text[COXI_STEP_TEXT_MAX]; /* which one, where the worker has seen it */
    struct coxi_kept *making;       /* the resource that the step makes, or NULL */
    struct coxi_buffer used;        /* struct coxi_kept *: those it has been handed */
    const struct coxi_kept *unmade; /* one that it asked for and that is not there */
    char text[COXI_STEP_TEXT_MAX];  /* of the last error */
    int code;                       /* how it has ended */
    char code_text[COXI_STEP_TEXT_MAX];

    struct coxi_scratch *scratch; /* while its step runs */
    struct coxi_buffer metrics;   /* those of this segment: see metric.c */

    pthread_mutex_t lock; /* guards all struct coxi_answers; leaf */
    pthread_cond_t answered;
    struct coxi_answers commits; /* of the segment */
    uint64_t committed_us; /* when the last segment was submitted; 0: not measured */

    uint32_t *touched; /* room for n_targets */
    uint32_t n_targets;
    struct coxi_target targets[];
};

/*
 * Requests that the slot waits for: _expect before each; each that has ended, or could not
 * be submitted, is told by _answered, on any thread (true: that was the last); _wait
 * returns when all have, with the first code that was not 0, and its text as the error text.
 */
void coxi_attempt_expect(struct coxi_attempt *attempt, struct coxi_answers *answers);
bool coxi_attempt_answered(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           int code, const char *text);
int coxi_attempt_wait(struct coxi_attempt *attempt, struct coxi_answers *answers);

/* COX_ECANCELLED once the attempt is cancelled. */
int coxi_attempt_check(struct coxi_attempt *attempt);

/* The step cannot succeed any more, for the reason in the error text. Returns the code. */
int coxi_attempt_break(struct coxi_attempt *attempt, int code);

/* Reports the attempt's end, and gives it back to the run. */
void coxi_attempt_end(struct coxi_attempt *attempt, bool committed);

/* Puts what is kept on this worker among the arguments, before the step runs. COX_ENOENT. */
int coxi_attempt_arguments(struct coxi_attempt *attempt);

/* The error that a step hears of its `unmade`. */
int coxi_attempt_unmade(const struct coxi_attempt *attempt);

/*
 * ---- commits (commit.c): cox_step_flush, but for keeping the text of its error; what the
 * step has collected since as the last segment (false: it has collected nothing at all),
 * which reports the attempt's end; and forgets what it has collected.
 */
int coxi_commit_flush(struct coxi_attempt *attempt);
bool coxi_commit_last(struct coxi_attempt *attempt);
void coxi_commit_drop(struct coxi_attempt *attempt);

/* ---- pulls (pull.c): cox_pull_begin and _wait, but for keeping the texts. `at_once`: the
 * values may be written to from now on. */
int coxi_pull_begin(struct coxi_attempt *attempt, const struct cox_pull *pulls,
                    size_t n_pulls, bool at_once, struct coxi_fetch **ret);
int coxi_pull_wait(struct coxi_attempt *attempt, struct coxi_fetch *fetch);

/* Waits for those that the step has left under way, and drops what they bring. */
void coxi_pulls_end(struct coxi_attempt *attempt);
void coxi_pulls_free(struct coxi_scratch *scratch);

/* ---- updates (push.c): collects one. What it has collected may be a part where it fails. */
int coxi_push(struct coxi_attempt *attempt, const struct coxi_variable *v, uint32_t op,
              const struct cox_rows *rows, const void *values);

/* The same but for the gradient of a loss scale, which is what the ps hears of the step. */
int coxi_push_now(struct coxi_attempt *attempt, const struct coxi_variable *v,
                  uint32_t op, const struct cox_rows *rows, const void *values);

/*
 * ---- loss scales (loss_scale.c): cox_step_loss_scale; what a step tells a loss scale; that a
 * gradient cannot leave, as the error text says (0: that is an overflow of scaled gradients);
 * takes the gradients off the segment if they overflowed; and, when the step has succeeded,
 * what the loss scale hears of it.
 */
int coxi_loss_scale_ask(struct coxi_attempt *attempt, struct cox_variable *scale,
                        float *ret);
int coxi_loss_scale_tell(struct coxi_attempt *attempt, const struct coxi_variable *v,
                         bool overflowed);
int coxi_loss_scale_nonfinite(struct coxi_attempt *attempt, int code);
void coxi_loss_scale_skip(struct coxi_attempt *attempt);
int coxi_loss_scale_end(struct coxi_attempt *attempt);

/* ---- metrics (metric.c): cox_step_metric_add and _auc */
int coxi_metric_push(struct coxi_attempt *attempt, const struct coxi_variable *v,
                     double value, double weight);
int coxi_metric_push_auc(struct coxi_attempt *attempt, const struct coxi_variable *v,
                         const float *labels, const float *scores, size_t n);

/* What is added to `v` from now on is another update, behind all that was collected. */
void coxi_metric_end(struct coxi_attempt *attempt, const struct coxi_variable *v);

/* The functions behind coxswain/step.h. */
extern const struct cox_step_api coxi_step_api;

#endif
