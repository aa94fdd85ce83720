/* What attempt.c (an attempt's life) and step_api.c (what its step calls) share. */
#ifndef COXI_WORKER_ATTEMPT_INTERNAL_H
#define COXI_WORKER_ATTEMPT_INTERNAL_H

#include <pthread.h>

#include "common/dtype.h"
#include "worker/attempt.h"

enum { COXI_STEP_TEXT_MAX = 512 };

/* What an attempt has for one ps: the updates of its commit, the pull under way. */
struct coxi_target {
    struct coxi_psc_request request; /* of the pull, then of the commit */
    struct coxi_attempt *attempt;
    struct iovec segment;
    bool touched; /* a commit has been submitted: it may be applied */

    struct coxi_buffer updates; /* of this segment: struct coxi_update */
    struct coxi_buffer update_payload;

    struct coxi_buffer items;     /* struct coxi_pull_item */
    struct coxi_buffer keys;      /* u64 */
    struct coxi_buffer positions; /* u32 */
    struct coxi_buffer pieces;    /* what becomes of the answer */
    size_t answer_len;

    size_t n_rows; /* of the table being sorted, and where its next row goes */
    size_t key_at;
    size_t value_at;
};

struct coxi_attempt {
    struct cox_step step; /* what the module sees: first */
    struct coxi_run *run;
    struct coxi_running *running; /* while its step runs */
    struct coxi_attempt *next;
    struct coxi_closure_head head;
    const void *packed_args;
    size_t packed_args_len;
    struct cox_value args[COXI_VALUES_MAX];
    size_t n_args;
    bool args_ready;
    struct coxi_buffer results;
    uint32_t run_us;
    int step_code; /* what cox_step_fail was given */
    bool step_failed;
    int broken;       /* why an update was not collected, or a flush failed */
    int lost;         /* a pull or a flush failed, and not by the step's fault */
    uint32_t segment; /* that is being collected: as many flushes went before */
    uint32_t last_ps; /* where the segment before it went, the first of those */
    struct coxi_kept *making;       /* the resource that the step makes, or NULL */
    struct coxi_buffer used;        /* struct coxi_kept *: those it has been handed */
    const struct coxi_kept *unmade; /* one that it asked for and that is not there */
    char text[COXI_STEP_TEXT_MAX];  /* of the last error */

    pthread_mutex_t lock; /* guards all below; leaf */
    pthread_cond_t pulled;
    uint32_t n_pending; /* answers to come */
    int code;           /* the first that was not 0 */
    char code_text[COXI_STEP_TEXT_MAX];

    uint32_t *touched; /* room for n_targets */
    uint32_t n_targets;
    struct coxi_target targets[];
};

/*
 * Requests that the slot waits for: it sets n_pending to 1 and adds 1 under `lock` before
 * each; each that has ended, or could not be submitted, is told by _answered, on any
 * thread; _wait gives up the slot's 1, and returns the first code that was not 0, with
 * its text as the error text.
 */
void coxi_attempt_answered(struct coxi_attempt *attempt, int code, const char *text);
int coxi_attempt_wait(struct coxi_attempt *attempt);

/* COX_ECANCELLED once the attempt is cancelled. */
int coxi_attempt_check(struct coxi_attempt *attempt);

/* cox_step_flush, but for keeping the text of its error. */
int coxi_attempt_flush(struct coxi_attempt *attempt);

/* The error that a step hears of its `unmade`. */
int coxi_attempt_unmade(const struct coxi_attempt *attempt);

/* The functions behind coxswain/step.h. */
extern const struct cox_step_api coxi_step_api;

#endif
