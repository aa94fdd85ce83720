/*
 * Step modules: the functions that run on workers.
 *
 * A module is a shared object that includes only this header, defines its steps and
 * lists them once. It links against nothing of Coxswain.
 *
 *     #include <coxswain/step.h>
 *
 *     static int count(struct cox_step *step)
 *     {
 *         struct cox_variable *total;
 *         int64_t one = 1;
 *         int r = cox_step_variable(step, "total", &total);
 *         return r != 0 ? r : cox_step_add(step, total, &one);
 *     }
 *     COX_STEPS(COX_STEP("count", count));
 *
 *     cc -shared -fPIC -o steps.so steps.c
 *
 * A step returns 0, or any other number to fail (see cox_step_fail). The updates of a
 * step (what it pushes, adds and assigns) are collected. When it returns 0, they are
 * applied exactly once on every parameter server; when it fails, they are not applied
 * at all (but see cox_step_flush).
 *
 * A step may run more than once, because its worker may die. So it must have no other
 * effects that must happen only once. Which variables and keys it touches, and where it
 * flushes, may depend on its arguments and on cox_step_seed, but not on pulled values
 * or on the time; otherwise its closure fails with COX_EDIVERGED.
 *
 * A step that calls exit or pthread_exit counts as crashed. A loaded module stays in
 * the worker's process, and its static variables keep their values.
 *
 * Threads: a step runs on one thread. A worker runs `slots` steps at a time (1 by
 * default; with more, steps must be thread-safe). A step may call the functions below
 * only from its own thread.
 *
 * Printing: in a local cluster, lines that a step prints to stdout or stderr appear on
 * the client's stderr with the worker's name before them ("worker 1: "); with
 * cox_options.log_dir, in the worker's log there. A worker that is started by hand
 * prints them itself. stdout is line-buffered.
 *
 * Every function returns 0 or a negative COX_E... code, with a text in
 * cox_step_error(step); a step usually returns that code. Pointers that the functions
 * hand out live until the step returns. Handles of variables live until the run ends on
 * this worker, so keep none in a static variable.
 */
#ifndef COXSWAIN_STEP_H
#define COXSWAIN_STEP_H

#include <stdarg.h>

#include "coxswain/batch.h"
#include "coxswain/local.h"
#include "coxswain/step_api.h"
#include "coxswain/step_round.h"
#include "coxswain/step_watch.h"
#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the module's table */

enum { COX_STEP_ABI = 1, COX_STEP_MAGIC = 0x50455453, COX_STEP_NAME_MAX = 63 };

struct cox_step_entry {
    char name[COX_STEP_NAME_MAX + 1];
    int (*run)(struct cox_step *step);
};

struct cox_steps_header {
    uint32_t magic;
    uint32_t abi;
    uint32_t n_steps;
    uint32_t entry_size;
};

#define COX_STEP(name, function) {name, function}

/* The list of a module's steps: once in a module, at file scope. */
#define COX_STEPS(...)                                                                 \
    COX_STEP_EXPORT_ const struct cox_step_entry cox_steps[] = {__VA_ARGS__};          \
    COX_STEP_EXPORT_ const struct cox_steps_header cox_steps_header_ = {               \
        COX_STEP_MAGIC, COX_STEP_ABI, sizeof(cox_steps) / sizeof(cox_steps[0]),        \
        sizeof(struct cox_step_entry)}

#ifdef __cplusplus
#define COX_STEP_EXPORT_ extern "C" __attribute__((visibility("default"), used))
#else
#define COX_STEP_EXPORT_ __attribute__((visibility("default"), used))
#endif

/* ---- what a step can do */

/* The text of the last error of this step's calls. */
static inline const char *cox_step_error(struct cox_step *step)
{
    return step->api->error(step);
}

/*
 * Makes the step fail with a message: `return cox_step_fail(step, 7, "line %d is odd",
 * n);`. The future reports COX_ESTEP, this code and the message. cox_step_error(step)
 * may be an argument of the message.
 */
__attribute__((format(printf, 3, 4))) static inline int
cox_step_fail(struct cox_step *step, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int r = step->api->fail(step, code, format, args);
    va_end(args);
    return r;
}

/* The call's arguments, in order. */
static inline size_t cox_step_arguments(struct cox_step *step,
                                        const struct cox_value **ret)
{
    return step->api->arguments(step, ret);
}

/* The argument called `name`, or NULL. */
static inline const struct cox_value *cox_step_argument(struct cox_step *step,
                                                        const char *name)
{
    const struct cox_value *values;
    size_t n = step->api->arguments(step, &values);
    for (size_t i = 0; i < n; i++) {
        const char *a = values[i].name;
        const char *b = name;
        while (*a != '\0' && *a == *b) {
            a++;
            b++;
        }
        if (*a == *b) {
            return &values[i];
        }
    }
    return NULL;
}

/* The scalar argument `name` of that type, or NULL. */
static inline const void *cox_step_scalar(struct cox_step *step, const char *name,
                                          uint32_t dtype)
{
    const struct cox_value *value = cox_step_argument(step, name);
    return value != NULL && value->rank == 0 && value->dtype == dtype ? value->data
                                                                      : NULL;
}

/* A number for random generators: the same in every attempt of this closure, another
 * one in other closures. In deterministic rounds (round.h) it is the same in every run
 * with the same cox_options.seed. */
static inline uint64_t cox_step_seed(struct cox_step *step)
{
    return step->api->seed(step);
}

/* The closure's id in the run (from 1), and the number of this attempt (from 1). */
static inline uint64_t cox_step_closure(struct cox_step *step)
{
    return step->api->closure(step);
}

static inline uint32_t cox_step_attempt(struct cox_step *step)
{
    return step->api->attempt(step);
}

/* The index of the worker that runs this step. */
static inline uint32_t cox_step_worker(struct cox_step *step)
{
    return step->api->worker(step);
}

/*
 * 1 once this attempt is cancelled: because the user cancelled it, another attempt was
 * faster, its time is up, or its client is gone. Nothing more of this attempt will be
 * applied, even if it returns 0; pulls and flushes fail with COX_ECANCELLED. A step
 * that may take long should call this now and then, and return soon after a 1: if it
 * has not returned cancel_grace_ms later, its process is ended. As cheap as reading a
 * variable.
 */
static inline int cox_step_cancelled(struct cox_step *step)
{
    return step->api->cancelled(step);
}

/*
 * The next batch of records of the step's task, if cox_schedule_next (dataset.h) has
 * scheduled its closure. Initialize `*ret` with COX_BATCH_INIT; its arrays live until
 * the next call. Every attempt gets the same batches. The worker reads ahead while the
 * step computes. A step that must pull what it has pushed calls cox_step_flush between
 * batches.
 *
 * COX_EEOF: there are no more records. COX_EINVAL: the closure has no task.
 * COX_ECANCELLED: as for pulls. All other codes mean that the file cannot be read, has
 * changed (COX_ECONFLICT) or is damaged; the text has file, offset and reason. Then the
 * closure ends with that code, even if the step returns 0.
 */
static inline int cox_step_batch(struct cox_step *step, struct cox_batch *ret)
{
    return step->api->batch(step, ret);
}

/* The variable or table called `name`; COX_ENOENT. Cheap, but once in a step is
 * enough. */
static inline int cox_step_variable(struct cox_step *step, const char *name,
                                    struct cox_variable **ret)
{
    return step->api->variable(step, name, ret);
}

/* A variable's type and shape; a table has rank 1: [dim]. */
static inline int cox_step_shape(struct cox_step *step,
                                 const struct cox_variable *variable,
                                 uint32_t *ret_dtype, uint32_t *ret_rank,
                                 uint64_t ret_shape[COX_RANK_MAX])
{
    return step->api->shape(step, variable, ret_dtype, ret_rank, ret_shape);
}

/* ---- pulls */

/*
 * Reads many variables and rows in one round trip per parameter server. A row that is
 * listed more than once is transferred once. A pull does not see updates that this step
 * has collected and not flushed. Two pulls may see different values. A row of a table
 * is never read half-written, nor are 4 KiB of a shard of a dense variable. Values of a
 * variable with a wire_dtype (cox_variable_spec) are rounded to that type, and arrive
 * as F32.
 *
 * COX_EINVAL: the variable does not have the rows, or keys or `values` are missing.
 * COX_ELIMIT: more than 2^32 - 1 rows are listed. After an error `values` may be partly
 * written.
 */
static inline int cox_step_pull(struct cox_step *step, const struct cox_pull *pulls,
                                size_t n_pulls)
{
    return step->api->pull(step, pulls, n_pulls);
}

/*
 * A pull in two halves, so that a step can compute meanwhile: cox_pull_begin sends the
 * requests, and cox_pull_wait returns when the values have arrived. `pulls` and the
 * lists of rows are copied. Only cox_pull_wait writes to `values`, so a step may return
 * without it (after an error, say); then the worker waits and drops the values. The
 * values are as old as cox_pull_begin: a flush in between may be in them, or not, or in
 * part.
 *
 * Wait for each pulling once, in any order; cox_pull_wait frees it, even when it
 * returns an error. COX_ELIMIT: this step has 8 pulls under way already.
 */
static inline int cox_pull_begin(struct cox_step *step, const struct cox_pull *pulls,
                                 size_t n_pulls, struct cox_pulling **ret)
{
    return step->api->pull_begin(step, pulls, n_pulls, ret);
}

static inline int cox_pull_wait(struct cox_step *step, struct cox_pulling *pulling)
{
    return step->api->pull_wait(step, pulling);
}

/* ---- updates */

enum cox_update {
    COX_UPDATE_GRADIENT = 0, /* F32, for the variable's optimizer */
    COX_UPDATE_ADD = 1,      /* this and all below: in the variable's type */
    COX_UPDATE_ASSIGN = 2,
    COX_UPDATE_MIN = 3,
    COX_UPDATE_MAX = 4,
};

/*
 * Collects an update of rows. `values` has the values of one row after the other, and
 * is copied. If a row is listed more than once, its values are combined before they are
 * sent: gradients and additions are summed (one step of the optimizer); only the least
 * minimum, the greatest maximum and the last assignment count. A gradient of some rows
 * of a dense variable changes only those rows and their optimizer state; it counts as
 * one update of the variable.
 *
 * Updates are applied in the order in which they were collected. Integers wrap around.
 * Minima and maxima ignore NaNs: the minimum of [NaN, 3] onto a row that holds 10 is 3,
 * and the first number replaces a NaN that the variable holds.
 *
 * COX_ENONFINITE: a gradient (after summing, in the variable's wire type) is infinite
 * or NaN, or would overflow the state of its rule, and the variable does not allow that
 * (enum cox_nonfinite). The text names step, variable and row. The closure fails with
 * COX_ENONFINITE even if the step returns 0, and nothing of it is applied (but see
 * cox_step_flush). COX_EINVAL: the variable does not take this update, or does not have
 * the rows; the closure fails then, too.
 */
static inline int cox_step_update(struct cox_step *step, struct cox_variable *variable,
                                  enum cox_update op, struct cox_rows rows,
                                  const void *values)
{
    return step->api->update(step, variable, (uint32_t)op, &rows, values);
}

/* cox_step_push: a gradient of the whole dense variable. cox_step_push_rows: gradients
 * of listed rows of a table or a dense variable. */
static inline int cox_step_push(struct cox_step *step, struct cox_variable *variable,
                                const float *gradient)
{
    return cox_step_update(step, variable, COX_UPDATE_GRADIENT, cox_rows_all(),
                           gradient);
}

static inline int cox_step_push_rows(struct cox_step *step,
                                     struct cox_variable *variable,
                                     const uint64_t *keys, size_t n_keys,
                                     const float *gradients)
{
    return cox_step_update(step, variable, COX_UPDATE_GRADIENT,
                           cox_rows_listed(keys, n_keys), gradients);
}

/* Add to a whole dense variable, overwrite it, or take the minimum or maximum with
 * it. */
static inline int cox_step_add(struct cox_step *step, struct cox_variable *variable,
                               const void *values)
{
    return cox_step_update(step, variable, COX_UPDATE_ADD, cox_rows_all(), values);
}

static inline int cox_step_assign(struct cox_step *step, struct cox_variable *variable,
                                  const void *values)
{
    return cox_step_update(step, variable, COX_UPDATE_ASSIGN, cox_rows_all(), values);
}

static inline int cox_step_min(struct cox_step *step, struct cox_variable *variable,
                               const void *values)
{
    return cox_step_update(step, variable, COX_UPDATE_MIN, cox_rows_all(), values);
}

static inline int cox_step_max(struct cox_step *step, struct cox_variable *variable,
                               const void *values)
{
    return cox_step_update(step, variable, COX_UPDATE_MAX, cox_rows_all(), values);
}

/*
 * ---- loss scale: a dense variable of one F32 whose optimizer is COX_LOSS_SCALE
 *
 *   cox_step_loss_scale(step, scale, &s);          before the first gradient
 *   ... multiply the loss by s, push the resulting gradients unchanged ...
 *   cox_step_loss_scale_update(step, scale, overflowed);
 */

/*
 * Returns the number by which to multiply the loss; it is the same for the whole step.
 * All gradients that the step pushes after this call count as multiplied by it. They
 * travel scaled, in the wire types of their variables. The ps divide them by the
 * number, in F32, before they clip, decay and apply them.
 *
 * COX_EINVAL: the variable is no loss scale; the step has asked for another one; it has
 * pushed or accumulated gradients since its beginning or its last flush; or the scale is not above 0
 * (initialize it with a constant).
 */
static inline int cox_step_loss_scale(struct cox_step *step,
                                      struct cox_variable *variable, float *ret)
{
    return step->api->loss_scale(step, variable, ret);
}

/*
 * Tells whether the scaled gradients overflowed, that is, were not all finite. Call it
 * once in a step. The worker notices overflows, too: after cox_step_loss_scale a
 * gradient that is not finite, or not finite in its wire type, is an overflow and no
 * error. But if the step does not call cox_step_loss_scale_update, it fails the closure
 * with COX_ENONFINITE.
 *
 * After an overflow the ps skip all gradients of the step, those before this call and
 * those after it: no value, state, count or row changes. Other updates count, metrics
 * too, and so do gradients that were flushed before the overflow. Schedules follow
 * closures as always (enum cox_schedule_kind). The scale becomes smaller; after many
 * steps without an overflow it becomes larger (enum cox_optimizer_kind). Push the
 * gradients also after an overflow, because what a step touches must not depend on what
 * it pulled.
 */
static inline int cox_step_loss_scale_update(struct cox_step *step,
                                             struct cox_variable *variable,
                                             int overflowed)
{
    const float gradient = overflowed != 0 ? 1.0F : 0.0F;
    return cox_step_push(step, variable, &gradient);
}

/*
 * Sets the place s of this step's gradients in the schedules of learning rates (enum
 * cox_schedule_kind), instead of the closure's place in the run. For programs that
 * count rounds of many closures, say, or that schedule evaluations in between. It holds
 * for all gradients from the last flush until the step returns. Take s from the
 * arguments, so that it is the same in every attempt.
 */
static inline void cox_step_rate_step(struct cox_step *step, uint64_t s)
{
    step->api->rate_step(step, s);
}

/* ---- metrics: variables that cox_metric_create has made */

/*
 * Adds a value with a weight to a sum or a mean, or adds the weight to a count.
 * Collected like other updates. All that a step adds to one metric is one update, so no
 * reader sees a part of it. If the step also assigns to the metric as a variable, the
 * order counts: the assignment overwrites what was added before it. COX_EINVAL: it is
 * no sum, mean or count.
 */
static inline int cox_step_metric_add(struct cox_step *step,
                                      struct cox_variable *metric, double value,
                                      double weight)
{
    return step->api->metric_add(step, metric, value, weight);
}

/*
 * Adds n examples to an AUC. An example is positive if its label is above 0.5. Scores
 * are from 0 to 1; lower ones count as 0, higher ones as 1. COX_EINVAL: it is no AUC,
 * or a score or a label is NaN.
 */
static inline int cox_step_metric_auc(struct cox_step *step,
                                      struct cox_variable *metric, const float *labels,
                                      const float *scores, size_t n)
{
    return step->api->metric_auc(step, metric, labels, scores, n);
}

/* ---- the rest of the step */

/*
 * Applies the updates that were collected so far, with accumulated gradients at their
 * end, and waits for that: later pulls of this step see them. They count exactly once, and so does the rest of the step. Does
 * nothing if nothing was collected.
 *
 * Use it for steps that must see their own writes. It costs a round trip to the
 * parameter servers, and a step that fails later leaves a trace: its closure ends with
 * COX_EPARTIAL, which names the parameter servers that have applied a part of it.
 *
 * COX_ELIMIT: more than 1023 flushes in a step. After an error the closure fails, even
 * if the step returns 0.
 */
static inline int cox_step_flush(struct cox_step *step)
{
    return step->api->flush(step);
}

/*
 * Adds a value to the step's results; it is copied. The client finds it by its name
 * (cox_future_result). COX_ELIMIT: more than 64 results, or more than 1 GiB; then the
 * closure fails, even if the step returns 0.
 */
static inline int cox_step_return(struct cox_step *step, const struct cox_value *value)
{
    return step->api->result(step, value);
}

/* ---- resources: what a worker keeps from step to step */

/*
 * Sets the value of a resource on this worker. Call it once, and only in the function
 * that makes a resource (cox_resource_create); without this call the value is NULL. The
 * worker calls release(value) once (`release` may be NULL): when no step uses the
 * resource any more and it was released or the run has ended, or when the making
 * function fails after this call. Like a step, `release` runs on one thread of the
 * worker; with one slot it never runs beside a step. A process that is killed releases
 * nothing.
 *
 * The making function runs once on each worker, and again in each new process. It may
 * do what steps do, except updates and results (COX_EINVAL). Its cox_step_closure and
 * cox_step_attempt are 0, and its cox_step_seed is the same on every worker
 * (cox_step_worker tells them apart). COX_EINVAL: called in another function, or twice.
 */
static inline int cox_step_keep(struct cox_step *step, void *value,
                                void (*release)(void *value))
{
    return step->api->keep(step, value, release);
}

/*
 * The value that resource `name` has on this worker. It stays at least until this step
 * returns. With more than one slot, steps that run at the same time share it, and must
 * synchronize. COX_ENOENT: there is no resource of that name. COX_ERESOURCE: it could
 * not be made on this worker; the step's error text says why. A step that needs the
 * resource returns that code (or any other than 0): its closure fails with
 * COX_ERESOURCE and that text.
 */
static inline int cox_step_resource(struct cox_step *step, const char *name, void **ret)
{
    return step->api->resource(step, name, ret);
}

#ifdef __cplusplus
}
#endif
#endif
