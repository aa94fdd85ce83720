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

    struct coxi_buffer updates; /* struct coxi_update */
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
    int broken;                    /* why an update was not collected */
    int lost;                      /* a pull failed, and not by the step's fault */
    char text[COXI_STEP_TEXT_MAX]; /* of the last error */

    pthread_mutex_t lock; /* guards all below; leaf */
    pthread_cond_t pulled;
    uint32_t n_pending; /* answers to come */
    int code;           /* the first that was not 0 */
    char code_text[COXI_STEP_TEXT_MAX];

    uint32_t n_targets;
    struct coxi_target targets[];
};

/* A ps's error as a closure's: one that does not answer in time is lost to it. */
int coxi_attempt_ps_code(int code);

/* The functions behind coxswain/step.h. */
extern const struct cox_step_api coxi_step_api;

#endif
