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
 * than once (its worker died), so it must not have effects elsewhere that count. Which
 * variables and keys it touches, and where it flushes, may depend on its arguments and on
 * cox_step_seed, not on pulled values or the time: otherwise it fails with COX_EDIVERGED.
 *
 * Threads: a step runs on one thread. A worker runs `slots` steps at a time (one,
 * unless told otherwise; with more, steps must be thread-safe). A step may call the
 * functions below from its own thread only.
 *
 * All functions return 0 or a negative COX_E... code with a text in
 * cox_step_error(step); a step usually passes it on by returning it. Pointers they hand
 * out live until the step returns, handles of variables as long as the worker.
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

/* One variable of a pull (cox_step_pull). */
struct cox_pull {
    struct cox_variable *variable;
    const uint64_t *keys; /* of a table; NULL: a dense variable, whole */
    size_t n_keys;
    /* n_keys * dim floats, in the order of the keys; or all its elements */
    void *values;
};

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
                  const uint64_t *keys, size_t n_keys, const void *values);
    int (*result)(struct cox_step *, const struct cox_value *value);
    int (*cancelled)(struct cox_step *);
    int (*flush)(struct cox_step *);
    int (*keep)(struct cox_step *, void *value, void (*release)(void *value));
    int (*resource)(struct cox_step *, const char *name, void **ret);
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

struct cox_module {
    uint32_t magic;
    uint32_t abi;
    uint32_t n_steps;
    uint32_t entry_size;
};

#define COX_STEP(name, function) {name, function}

/* Once in a module, at file scope: its steps by name. */
#define COX_STEPS(...)                                                                 \
    COX_STEP_EXPORT_ const struct cox_step_entry cox_steps[] = {__VA_ARGS__};          \
    COX_STEP_EXPORT_ const struct cox_module cox_module = {                            \
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
 * Ends the step with a message for the one who waits for it: `return
 * cox_step_fail(step, 7, "line %d is odd", n);`. The future reports COX_ESTEP, this
 * code and the message.
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

/* Reads many variables and rows in one round trip per parameter server. */
static inline int cox_step_pull(struct cox_step *step, const struct cox_pull *pulls,
                                size_t n_pulls)
{
    return step->api->pull(step, pulls, n_pulls);
}

/* Collects an update; `values` is copied. See enum cox_update. */
enum cox_update { COX_UPDATE_GRADIENT = 0, COX_UPDATE_ADD = 1, COX_UPDATE_ASSIGN = 2 };

/* A gradient (f32) for the variable's optimizer, as large as the variable. */
static inline int cox_step_push(struct cox_step *step, struct cox_variable *variable,
                                const float *gradient)
{
    return step->api->update(step, variable, COX_UPDATE_GRADIENT, NULL, 0, gradient);
}

/* Gradients (n_keys * dim f32) for rows of a table. */
static inline int cox_step_push_rows(struct cox_step *step, struct cox_variable *table,
                                     const uint64_t *keys, size_t n_keys,
                                     const float *gradients)
{
    return step->api->update(step, table, COX_UPDATE_GRADIENT, keys, n_keys, gradients);
}

/* Adds to, or overwrites, a whole dense variable, in its own type. */
static inline int cox_step_add(struct cox_step *step, struct cox_variable *variable,
                               const void *values)
{
    return step->api->update(step, variable, COX_UPDATE_ADD, NULL, 0, values);
}

static inline int cox_step_assign(struct cox_step *step, struct cox_variable *variable,
                                  const void *values)
{
    return step->api->update(step, variable, COX_UPDATE_ASSIGN, NULL, 0, values);
}

/*
 * Applies what has been collected so far, now, and waits for that: what is pulled after
 * it has seen it. The rest of the step goes on as before; all of it counts exactly once,
 * too. Nothing collected: does nothing.
 *
 * For steps that must see their own writes: it costs a round trip to the parameter
 * servers, and gives up that a step which fails leaves no trace. One that fails after a
 * flush ends with COX_EPARTIAL, which names the parameter servers that have it.
 *
 * COX_ELIMIT: more than 1023 flushes in a step. After an error the step cannot succeed
 * any more.
 */
static inline int cox_step_flush(struct cox_step *step)
{
    return step->api->flush(step);
}

/* Adds a value to the step's results; copied. Names are for the reader of the
 * future. */
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
