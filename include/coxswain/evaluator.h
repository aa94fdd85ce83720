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

/* What an evaluator has reported of a checkpoint. */
struct cox_eval {
    size_t size;
    uint64_t checkpoint;
    double time_s; /* since 1970 */
    const struct cox_score *scores;
    size_t n_scores;
};
#define COX_EVAL_INIT {sizeof(struct cox_eval), 0, 0, NULL, 0}

struct cox_evaluator_options {
    size_t size;
    int first_timeout_ms; /* for the first checkpoint, 60000; -1: none */
    int idle_timeout_ms;  /* for each later one, 60000; -1: none */
    int poll_ms;          /* between looks at the directory, 100 */
    const char *const
        *variables; /* to be read, by name or pattern (fnmatch: a star also
                                     matches '/'); NULL: all */
    size_t n_variables;
    int every; /* 1: each checkpoint that there is, in order; 0: the newest alone */
    uint64_t max_checkpoints; /* after so many: COX_EEOF; 0: no such end */
    void (*on_report)(void *arg,
                      const struct cox_eval *eval); /* by what reports; or NULL */
    void *arg;
};
#define COX_EVALUATOR_OPTIONS_INIT                                                     \
    {sizeof(struct cox_evaluator_options), 0, 0, 0, NULL, 0, 0, 0, NULL, NULL}

/* `dir` is the checkpoint directory; it need not exist yet. No coordinator is
 * needed. */
COX_API int cox_evaluator_open(const char *dir,
                               const struct cox_evaluator_options *options,
                               struct cox_evaluator **ret);

struct cox_checkpoint_info {
    size_t size;
    uint64_t number;
    uint64_t run;
    int final; /* its client wrote it as its last; a later client may go on from it */
};
#define COX_CHECKPOINT_INFO_INIT {sizeof(struct cox_checkpoint_info), 0, 0, 0}

/*
 * Waits for a checkpoint newer than the last one and loads it, checksums verified; it
 * stays loaded until the next call, and is not deleted meanwhile. COX_EEOF: the last one
 * was final and no client has gone on from there, or there were max_checkpoints.
 * COX_ETIMEDOUT: none came. COX_ECHECKSUM, COX_EFORMAT, COX_EIO, COX_ENOENT (deleted): it
 * cannot be loaded; the text names the file, and the next older checkpoint that is complete.
 * Then what was loaded stays; the next call takes a newer checkpoint, if there is one by then,
 * or tries this one again, after poll_ms. When nothing could be loaded for as long as it would
 * have waited: COX_ETIMEDOUT.
 */
COX_API int cox_evaluator_next(struct cox_evaluator *evaluator,
                               struct cox_checkpoint_info *ret);

/* A dense variable of the loaded checkpoint, all `bytes` of it. COX_ENOENT: it has none of
 * that name, or it was not asked for (options.variables). COX_ENOTREADY. */
COX_API int cox_evaluator_read(struct cox_evaluator *evaluator, const char *name,
                               void *ret_data, size_t bytes);

/* Rows of a table: n_keys * dim floats; rows not there: their initial values. */
COX_API int cox_evaluator_lookup(struct cox_evaluator *evaluator, const char *table,
                                 const uint64_t *keys, size_t n_keys, uint32_t dim,
                                 float *ret_rows);

/* How many rows a table of the loaded checkpoint has. */
COX_API int cox_evaluator_rows(struct cox_evaluator *evaluator, const char *table,
                               uint64_t *ret_rows);

/*
 * Appends a line to <dir>/eval.jsonl: {"checkpoint": n, "time": s, <name>: <value>, ...};
 * then calls options.on_report. Several evaluators may report to one file. COX_EINVAL: a
 * score has no name, or one that is no UTF-8 text, "checkpoint", "time", or another's;
 * COX_ENOTREADY; COX_EIO.
 */
COX_API int cox_evaluator_report(struct cox_evaluator *evaluator,
                                 const struct cox_score *scores, size_t n_scores);

COX_API void cox_evaluator_close(struct cox_evaluator *evaluator); /* takes NULL */

/*
 * What evaluators have reported so far, oldest first: for a client that stops early or
 * changes its course by it, and for plots. Lines that are not whole are passed over; a
 * value that is no number in JSON reads as NaN. COX_ENOENT: nothing was reported yet;
 * COX_EIO; COX_ELIMIT: more than 64 MiB.
 */
COX_API int cox_evals_read(const char *dir, struct cox_evals **ret);
COX_API size_t cox_evals_count(const struct cox_evals *evals);

/* The i-th one; its scores live as long as `evals`. COX_ENOENT: there are not so many. */
COX_API int cox_evals_at(const struct cox_evals *evals, size_t i, struct cox_eval *ret);

/* The score of that name; COX_ENOENT. */
COX_API int cox_eval_score(const struct cox_eval *eval, const char *name,
                           double *ret_value);

COX_API void cox_evals_free(struct cox_evals *evals); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
