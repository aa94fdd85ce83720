/*
 * What a step's calls take, and the table of functions that they use. Include
 * <coxswain/step.h> instead of this file.
 */
#ifndef COXSWAIN_STEP_API_H
#define COXSWAIN_STEP_API_H

#include <stdarg.h>

#include "coxswain/batch.h"
#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_step;
struct cox_variable; /* a dense variable or a table */

/*
 * The rows of a pull or an update. Rows of a table are always listed, by key. Rows of a
 * dense variable are those of its first axis: all of them, a slice, or listed by
 * number. A row may be listed more than once. The functions below make a cox_rows; a
 * zeroed one means all rows.
 *
 * A key is any 64-bit number. There is no COX_U64: pass keys in an argument as COX_I64,
 * and read them as `(const uint64_t *)value->data`; the bits are the same.
 */
enum cox_rows_form { COX_ROWS_ALL = 0, COX_ROWS_SLICE = 1, COX_ROWS_LISTED = 2 };

struct cox_rows {
    uint32_t form; /* enum cox_rows_form */
    size_t n;
    const uint64_t *keys; /* listed: keys, or numbers of rows */
    uint64_t begin;       /* slice: the first row */
};

static inline struct cox_rows cox_rows_all(void)
{
    struct cox_rows rows = {COX_ROWS_ALL, 0, NULL, 0};
    return rows;
}

static inline struct cox_rows cox_rows_slice(uint64_t begin, size_t n)
{
    struct cox_rows rows = {COX_ROWS_SLICE, n, NULL, begin};
    return rows;
}

static inline struct cox_rows cox_rows_listed(const uint64_t *keys, size_t n)
{
    struct cox_rows rows = {COX_ROWS_LISTED, n, keys, 0};
    return rows;
}

/* One variable of a pull (cox_step_pull). */
struct cox_pull {
    struct cox_variable *variable;
    struct cox_rows rows;
    void *values;   /* receives the rows, one after the other, in the order asked for */
    uint32_t flags; /* enum cox_pull_flag, or 0 */
};

enum cox_pull_flag {
    /*
     * For a pull of all of a dense variable: the worker keeps the values for this run.
     * A later pull with this flag transfers only shards that have changed. Use it for
     * variables that many steps read and few write. It costs one copy more, and memory
     * (--pull-cache-max); if there is no room, the pull works as without the flag.
     * Between closures of one synchronous round (round.h) nothing is transferred, nor
     * is the ps asked; there, variables of up to 64 KiB need no flag.
     */
    COX_PULL_CACHED = 1,
};

struct cox_pulling; /* a pull that is under way */

/*
 * The functions that the wrappers below call. The worker passes them to its steps. New
 * ones are only appended, so a module built against an older header runs on a newer
 * worker.
 */
struct cox_step_api {
    size_t size; /* of this struct in the worker's version */
    const char *(*error)(struct cox_step *);
    int (*fail)(struct cox_step *, int code, const char *format, va_list args);
    size_t (*arguments)(struct cox_step *, const struct cox_value **ret);
    uint64_t (*seed)(struct cox_step *);
    uint64_t (*closure)(struct cox_step *);
    uint32_t (*attempt)(struct cox_step *);
    uint32_t (*worker)(struct cox_step *);
    int (*variable)(struct cox_step *, const char *name, struct cox_variable **ret);
    int (*shape)(struct cox_step *, const struct cox_variable *, uint32_t *ret_dtype,
                 uint32_t *ret_rank, uint64_t ret_shape[COX_RANK_MAX]);
    int (*pull)(struct cox_step *, const struct cox_pull *pulls, size_t n_pulls);
    int (*update)(struct cox_step *, struct cox_variable *, uint32_t op,
                  const struct cox_rows *rows, const void *values);
    int (*result)(struct cox_step *, const struct cox_value *value);
    int (*cancelled)(struct cox_step *);
    int (*flush)(struct cox_step *);
    int (*keep)(struct cox_step *, void *value, void (*release)(void *value));
    int (*resource)(struct cox_step *, const char *name, void **ret);
    int (*pull_begin)(struct cox_step *, const struct cox_pull *pulls, size_t n_pulls,
                      struct cox_pulling **ret);
    int (*pull_wait)(struct cox_step *, struct cox_pulling *pulling);
    int (*metric_add)(struct cox_step *, struct cox_variable *metric, double value,
                      double weight);
    int (*metric_auc)(struct cox_step *, struct cox_variable *metric,
                      const float *labels, const float *scores, size_t n);
    void (*rate_step)(struct cox_step *, uint64_t s);
    int (*loss_scale)(struct cox_step *, struct cox_variable *scale, float *ret);
    int (*batch)(struct cox_step *, struct cox_batch *ret);
    int (*weight)(struct cox_step *, double weight);
    int (*accumulate)(struct cox_step *, struct cox_variable *,
                      const struct cox_rows *rows, const float *gradient);
    int (*push_accumulated)(struct cox_step *, float scale);
    int (*local_pull)(struct cox_step *, const struct cox_pull *pulls, size_t n_pulls);
    int (*local_rate)(struct cox_step *, struct cox_variable *, float learning_rate);
    int (*local_step)(struct cox_step *, struct cox_variable *,
                      const struct cox_rows *rows, const float *gradient);
    int (*local_push)(struct cox_step *, float scale);
    int (*log_scalar)(struct cox_step *, const char *name, double value);
};

/* The handle of a running step; everything but `api` belongs to the worker. */
struct cox_step {
    const struct cox_step_api *api;
};

#ifdef __cplusplus
}
#endif
#endif
