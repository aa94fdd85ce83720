/*
 * The evaluator: a program that scores checkpoints while training runs. It needs the
 * checkpoint directory, and neither a coordinator nor daemons. Include
 * <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_EVALUATOR_H
#define COXSWAIN_EVALUATOR_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_evaluator;
struct cox_evals;

struct cox_score {
    const char *name;
    double value;
};

/* An evaluator's report about a checkpoint. */
struct cox_eval {
    size_t size;
    uint64_t checkpoint;
    double time_s; /* since 1970 */
    const struct cox_score *scores;
    size_t n_scores;
};
#define COX_EVAL_INIT COX_INIT(cox_eval)

struct cox_evaluator_options {
    size_t size;

    /* The wait for the first checkpoint; -1: no limit. 0: what
     * $COX_EVALUATOR_FIRST_TIMEOUT_MS says; without that, the default */
    int first_timeout_ms;

    /* The wait for each later one; -1: no limit. 0: what $COX_EVALUATOR_IDLE_TIMEOUT_MS
     * says; without that, the default */
    int idle_timeout_ms;

    /* How often to look into the directory; 0 in a store: every 1000 ms */
    int poll_ms;

    /* The variables to load, by name or pattern (fnmatch; a star also matches '/');
     * NULL: all */
    const char *const *variables;
    size_t n_variables;

    /* 1: every checkpoint in order; 0: only the newest */
    int every;

    /* After that many checkpoints cox_evaluator_next returns COX_EEOF; 0: no limit */
    uint64_t max_checkpoints;

    /* Called by cox_evaluator_report, on its thread; may be NULL */
    void (*on_report)(void *arg, const struct cox_eval *eval);
    void *arg;
};
#define COX_EVALUATOR_OPTIONS_INIT COX_INIT(cox_evaluator_options)

/* `dir` is the checkpoint directory, which need not exist yet, or s3://BUCKET/PREFIX. Needs
 * no coordinator. COX_EINVAL: it is neither. */
COX_API int cox_evaluator_open(const char *dir,
                               const struct cox_evaluator_options *options,
                               struct cox_evaluator **ret);

struct cox_checkpoint_info {
    size_t size;
    uint64_t number;
    uint64_t run;
    /* 1: its client saved it as the last one. A later client may still go on from it */
    int final;
};
#define COX_CHECKPOINT_INFO_INIT COX_INIT(cox_checkpoint_info)

/*
 * Waits for a checkpoint newer than the last one, verifies its checksums, and loads it.
 * It stays loaded until the next call; nobody deletes it before that.
 *
 * COX_EEOF: the last one was final and no client has gone on from it, or there were
 * max_checkpoints. COX_ETIMEDOUT: no new checkpoint came. COX_ECHECKSUM, COX_EFORMAT,
 * COX_EIO, COX_ENOENT (it was deleted): the checkpoint cannot be loaded; the text names
 * the file and the next older complete checkpoint. After such an error the previous
 * checkpoint stays loaded. The next call takes a newer checkpoint, if there is one, or
 * tries this one again after poll_ms. If nothing could be loaded until the timeout:
 * COX_ETIMEDOUT.
 */
COX_API int cox_evaluator_next(struct cox_evaluator *evaluator,
                               struct cox_checkpoint_info *ret);

/* Reads a dense variable of the loaded checkpoint; `bytes` must be its size.
 * COX_ENOENT: the checkpoint has no such variable, or options.variables does not match
 * it. COX_ENOTREADY: nothing is loaded. */
COX_API int cox_evaluator_read(struct cox_evaluator *evaluator, const char *name,
                               void *ret_data, size_t bytes);

/* Reads rows of a table: n_keys * dim floats. A row that does not exist reads as its
 * initial values. */
COX_API int cox_evaluator_lookup(struct cox_evaluator *evaluator, const char *table,
                                 const uint64_t *keys, size_t n_keys, uint32_t dim,
                                 float *ret_rows);

/* The number of rows of a table in the loaded checkpoint. */
COX_API int cox_evaluator_rows(struct cox_evaluator *evaluator, const char *table,
                               uint64_t *ret_rows);

/*
 * Appends a line to <dir>/eval.jsonl: {"checkpoint": n, "time": s, <name>: <value>,
 * ...}; then calls options.on_report. Several evaluators may report to one file.
 * COX_EINVAL: a score has no name; its name is no UTF-8 text, or "checkpoint" or
 * "time"; or two scores have the same name. COX_ENOTREADY: nothing is loaded. COX_EIO.
 */
COX_API int cox_evaluator_report(struct cox_evaluator *evaluator,
                                 const struct cox_score *scores, size_t n_scores);

COX_API void cox_evaluator_close(struct cox_evaluator *evaluator); /* takes NULL */

/*
 * Reads all reports of evaluators so far, oldest first: for a client that stops early
 * or changes a rate, and for plots. Incomplete lines are skipped. A value that is no
 * number in JSON reads as NaN. COX_ENOENT: nothing was reported yet. COX_EIO.
 * COX_ELIMIT: more than 64 MiB. COX_ETIMEDOUT: a store of objects has not answered within
 * 3 s, and the text says why; so a training loop may call this.
 */
COX_API int cox_evals_read(const char *dir, struct cox_evals **ret);
COX_API size_t cox_evals_count(const struct cox_evals *evals);

/* The i-th report; its scores live as long as `evals`. COX_ENOENT: there are fewer. */
COX_API int cox_evals_at(const struct cox_evals *evals, size_t i, struct cox_eval *ret);

/* The score of that name; COX_ENOENT. */
COX_API int cox_eval_score(const struct cox_eval *eval, const char *name,
                           double *ret_value);

COX_API void cox_evals_free(struct cox_evals *evals); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
