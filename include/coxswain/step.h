/*
 * Step modules: the functions that run on workers.
 *
 * A module is a shared object that includes this header alone, defines its steps and
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
 * A step returns 0, or anything else to fail (see cox_step_fail). What it pushes, adds
 * and assigns is collected, and applied exactly once on every parameter server when it
 * returns 0, and not at all when it fails (but see cox_step_flush). A step may run more
 * than once (its worker died), so it must not have effects elsewhere that count. One that
 * calls exit or pthread_exit counts as crashed. A module that was loaded stays in the
 * worker's process, with the values of its static variables. Which
 * variables and keys it touches, and where it flushes, may depend on its arguments and on
 * cox_step_seed, not on pulled values or the time: otherwise it fails with COX_EDIVERGED.
 *
 * Threads: a step runs on one thread. A worker runs `slots` steps at a time (one,
 * unless told otherwise; with more, steps must be thread-safe). A step may call the
 * functions below from its own thread only.
 *
 * Printing: what a step prints at stdout or stderr goes, of a local cluster, to the client's
 * stderr, each line behind its worker's name ("worker 1: "), or with cox_options.log_dir to
 * the worker's log there; of a worker started by hand to where that one prints. stdout is
 * line-buffered.
 *
 * All functions return 0 or a negative COX_E... code with a text in
 * cox_step_error(step); a step usually passes it on by returning it. Pointers they hand
 * out live until the step returns, handles of variables until the run ends on this worker (so
 * keep none in a static variable).
 */
#ifndef COXSWAIN_STEP_H
#define COXSWAIN_STEP_H

#include <stdarg.h>

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_step;
struct cox_variable; /* a dense variable or a table */

/*
 * Which rows of a variable a pull or an update is about. Of a table always listed, by key;
 * of a dense variable (its rows are those of its first axis) all of them, a slice, or listed
 * by number. A row may be listed more than once. Made by the functions below; zeroed: all.
 */
enum cox_rows_form { COX_ROWS_ALL = 0, COX_ROWS_SLICE = 1, COX_ROWS_LISTED = 2 };

struct cox_rows {
    uint32_t form; /* enum cox_rows_form */
    size_t n;
    const uint64_t *keys; /* listed: keys, or numbers of rows */
    uint64_t begin;       /* of a slice, the first */
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
    void *values;   /* the rows' elements, one row after the other, in their order */
    uint32_t flags; /* enum cox_pull_flag, or 0 */
};

enum cox_pull_flag {
    /*
     * Of a dense variable, all of it: the worker keeps the values, for this run, and a later
     * pull with this flag has them sent again only where they have changed. For what many
     * steps read and few write; costs a copy more, and memory (--pull-cache-max; what
     * finds no room there is pulled as without the flag).
     */
    COX_PULL_CACHED = 1,
};

struct cox_pulling; /* a pull that is under way */

/*
 * The functions behind the wrappers below: handed to a step by its worker, only ever
 * appended to. A module built against an older header runs on a newer worker.
 */
struct cox_step_api {
    size_t size; /* of this struct, as the worker knows it */
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
};

/* What a step is handed; everything but `api` belongs to the worker. */
struct cox_step {
    const struct cox_step_api *api;
};

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

/* Once in a module, at file scope: its steps by name. */
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
 * Ends the step with a message for its future: `return
 * cox_step_fail(step, 7, "line %d is odd", n);`. The future reports COX_ESTEP, this
 * code and the message, of which cox_step_error may be a part.
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

/* The scalar argument `name` of the given type, or NULL where there is none such. */
static inline const void *cox_step_scalar(struct cox_step *step, const char *name,
                                          uint32_t dtype)
{
    const struct cox_value *value = cox_step_argument(step, name);
    return value != NULL && value->rank == 0 && value->dtype == dtype ? value->data
                                                                      : NULL;
}

/* A number that is the same in every attempt of this closure, and differs between
 * closures. */
static inline uint64_t cox_step_seed(struct cox_step *step)
{
    return step->api->seed(step);
}

/* The closure's id in the run (from 1), and which attempt of it this is (from 1). */
static inline uint64_t cox_step_closure(struct cox_step *step)
{
    return step->api->closure(step);
}

static inline uint32_t cox_step_attempt(struct cox_step *step)
{
    return step->api->attempt(step);
}

/* Index of the worker that runs this. */
static inline uint32_t cox_step_worker(struct cox_step *step)
{
    return step->api->worker(step);
}

/*
 * 1 once this attempt is cancelled: its user wants it no more, another attempt has been
 * faster, it has run for longer than it may, or its client is gone. Nothing more of it
 * will be applied, whatever it returns; pulls and flushes fail with COX_ECANCELLED. A
 * step that may take long looks now and then, and returns soon: one that has not returned
 * cancel_grace_ms later is ended with its process. As cheap as reading a variable.
 */
static inline int cox_step_cancelled(struct cox_step *step)
{
    return step->api->cancelled(step);
}

/* The variable or table called `name`; COX_ENOENT. Cheap, but once a step is enough. */
static inline int cox_step_variable(struct cox_step *step, const char *name,
                                    struct cox_variable **ret)
{
    return step->api->variable(step, name, ret);
}

/* Its type and shape; a table has rank 1: [dim]. */
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
 * listed more than once goes over the wire once. What steps push and have not flushed is
 * not in it, nor need two pulls see the same; a row of a table, and each 4 KiB of a shard
 * of a dense variable, is never read half-written. Variables with a wire type
 * (cox_variable_spec) come rounded to that, in F32.
 *
 * COX_EINVAL: rows that the variable does not have, keys missing, no place for values;
 * COX_ELIMIT: more than 2^32 - 1 rows listed. `values` may have been written to then.
 */
static inline int cox_step_pull(struct cox_step *step, const struct cox_pull *pulls,
                                size_t n_pulls)
{
    return step->api->pull(step, pulls, n_pulls);
}

/*
 * The same in two halves, so that a step can compute meanwhile: begin sends the requests,
 * wait returns when the values are there. `pulls` and the lists of rows are copied; values
 * are written by wait alone, so that a step may return (also because of an error) without
 * waiting: the worker then waits, and drops what was pulled. What is pulled is as old as
 * begin: a flush in between is not in it, or is, or in part.
 *
 * Each pulling is waited for once, in any order; it is gone then, whatever wait returns.
 * COX_ELIMIT: 8 are under way in this step already.
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
    COX_UPDATE_GRADIENT = 0, /* f32, for the variable's optimizer */
    COX_UPDATE_ADD = 1,      /* all others: in the variable's own type */
    COX_UPDATE_ASSIGN = 2,
    COX_UPDATE_MIN = 3,
    COX_UPDATE_MAX = 4,
};

/*
 * Collects an update of rows, which have their values one row after the other; those are
 * copied. Where a row is listed more than once, what is given for it is combined before it
 * is sent: gradients and additions are summed (one step of the optimizer), of minima and
 * maxima the least and the greatest count, of assignments the last. A gradient of a part of
 * a dense variable moves those rows and their optimizer state alone; it counts as one update
 * of the variable.
 *
 * Updates are applied in the order in which they were collected; integers wrap around.
 * Minima and maxima ignore NaNs: of [NaN, 3] for a row that holds 10 the least is 3, and a
 * NaN that the variable holds gives way to the first number.
 *
 * COX_ENONFINITE: a gradient (summed, and in the variable's wire type) is infinite or NaN, or
 * would overflow the state of its rule (enum cox_nonfinite), and the variable does not allow
 * that (cox_variable_spec). The text names step, variable and row, the step cannot succeed
 * any more, and its closure fails with COX_ENONFINITE, nothing of it applied (but see
 * cox_step_flush). COX_EINVAL: the variable takes no such update, or has no such rows; the
 * step cannot succeed any more.
 */
static inline int cox_step_update(struct cox_step *step, struct cox_variable *variable,
                                  enum cox_update op, struct cox_rows rows,
                                  const void *values)
{
    return step->api->update(step, variable, (uint32_t)op, &rows, values);
}

/* A gradient as large as the dense variable; and gradients for listed rows of a table or a
 * dense variable. */
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

/* Adds to, overwrites, or takes the least or greatest of a whole dense variable. */
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
 *   ... multiply the loss by s, push the gradients that come of it as they are ...
 *   cox_step_loss_scale_update(step, scale, overflowed);
 */

/*
 * What to multiply the loss by: the same number for all of a step. From then on all
 * gradients that the step pushes count as multiplied by it. They travel so, in the wire
 * types of their variables, and the ps divide them by it in F32, before they clip, decay and
 * apply them.
 *
 * COX_EINVAL: not a loss scale; the step has asked for another one; it has pushed gradients
 * since its beginning or its last flush; the scale is not above 0 (begin it at a constant).
 */
static inline int cox_step_loss_scale(struct cox_step *step,
                                      struct cox_variable *variable, float *ret)
{
    return step->api->loss_scale(step, variable, ret);
}

/*
 * Tells, once in a step, whether the scaled gradients overflowed (were not all finite). The
 * worker sees that, too: after cox_step_loss_scale a gradient that is not finite, or becomes
 * so in its wire type, is an overflow and no error. In a step that asks and does not tell, it
 * fails the closure with COX_ENONFINITE.
 *
 * After an overflow the ps skip all gradients of the step, whether it pushed them before or
 * after this call: no value moves, nor a state, a count or a row. Other updates count,
 * metrics too, and so does what was flushed before the overflow; schedules follow closures
 * all the same (enum cox_schedule_kind). The scale becomes less; after many steps without an
 * overflow, more (enum cox_optimizer_kind). Push in either case, whatever the numbers are: what
 * a step touches must not depend on what it pulled.
 */
static inline int cox_step_loss_scale_update(struct cox_step *step,
                                             struct cox_variable *variable,
                                             int overflowed)
{
    const float gradient = overflowed != 0 ? 1.0F : 0.0F;
    return cox_step_push(step, variable, &gradient);
}

/*
 * Where the schedules of learning rates are for what this step pushes (s of enum
 * cox_schedule_kind), instead of the closure's place in the run: for programs that count
 * otherwise, like rounds of many closures, or beside evaluations. It holds for all that was
 * pushed since the last flush, and until the step returns. Take it from the arguments, so
 * that it is the same in every attempt.
 */
static inline void cox_step_rate_step(struct cox_step *step, uint64_t s)
{
    step->api->rate_step(step, s);
}

/* ---- metrics: variables that cox_metric_create has made */

/*
 * Adds a value to a sum or a mean with a weight, or the weight to a count. Collected like
 * updates; what a step adds to one metric is one update, so that no reader sees a part of
 * it. Where the step assigns to the metric as a variable in between, that counts in its place:
 * what was added before is overwritten, what is added after stays. COX_EINVAL: not such a metric.
 */
static inline int cox_step_metric_add(struct cox_step *step,
                                      struct cox_variable *metric, double value,
                                      double weight)
{
    return step->api->metric_add(step, metric, value, weight);
}

/*
 * Adds n examples to an AUC: labels (positive: above 0.5) and scores from 0 to 1 (beyond:
 * as these). COX_EINVAL: not such a metric, or a score or a label is NaN.
 */
static inline int cox_step_metric_auc(struct cox_step *step,
                                      struct cox_variable *metric, const float *labels,
                                      const float *scores, size_t n)
{
    return step->api->metric_auc(step, metric, labels, scores, n);
}

/* ---- the rest of the step */

/*
 * Applies what has been collected so far, now, and waits for that: what is pulled after
 * it has seen it. The rest of the step goes on as before; all of it counts exactly once,
 * too. Nothing collected: does nothing.
 *
 * For steps that must see their own writes: it costs a round trip to the parameter
 * servers, and gives up that a step which fails leaves no trace. One that fails after a
 * flush ends with COX_EPARTIAL, which names the parameter servers that have it as of then.
 *
 * COX_ELIMIT: more than 1023 flushes in a step. After an error the step cannot succeed
 * any more.
 */
static inline int cox_step_flush(struct cox_step *step)
{
    return step->api->flush(step);
}

/*
 * Adds a value to the step's results; copied. Names are for the reader of the future. At
 * most 64, and 1 GiB of them (COX_ELIMIT): a step of which one is refused fails, whatever
 * it returns.
 */
static inline int cox_step_return(struct cox_step *step, const struct cox_value *value)
{
    return step->api->result(step, value);
}

/* ---- resources: what a worker keeps from step to step */

/*
 * In the function of a resource (cox_resource_create) alone, once: what the resource is
 * on this worker. `release` (may be NULL) is called with it once, when the resource has
 * been released or the run has ended and no step uses it any more, or when this function
 * then fails. Like steps, it runs on one thread of the worker's, with one slot never
 * beside a step. (A process that is killed releases nothing.) Without this call the
 * value is NULL.
 *
 * Such a function is run once on each worker, and anew in each new process. It may do
 * what steps do, but that it has no updates and no results (COX_EINVAL); its
 * cox_step_closure and cox_step_attempt are 0, its cox_step_seed the same on every worker
 * (cox_step_worker tells them apart). COX_EINVAL: called elsewhere, or twice.
 */
static inline int cox_step_keep(struct cox_step *step, void *value,
                                void (*release)(void *value))
{
    return step->api->keep(step, value, release);
}

/*
 * What resource `name` keeps on this worker: its very value, which stays until this step
 * has returned at least. With more than one slot it is shared by steps that run at the
 * same time, which have to agree on who changes what. COX_ENOENT: there is no resource of
 * that name. COX_ERESOURCE: it could not be made here; the step's error text says why. A
 * step that cannot do without it returns that (or anything but 0): its closure fails with
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
