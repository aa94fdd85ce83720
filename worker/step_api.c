/*
 * The functions that coxswain/step.h calls: everything that a step may do. Pulls are in
 * pull.c, updates in push.c, accumulate.c, local.c and metric.c.
 *
 * Threads: the step's (a slot).
 */
#include "worker/step_api.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/layout.h"
#include "common/scalars.h"
#include "common/structs.h"
#include "common/sync.h"
#include "data/task.h"
#include "worker/accumulate.h"
#include "worker/batches.h"
#include "worker/commit.h"
#include "worker/local.h"
#include "worker/loss_scale.h"
#include "worker/metric.h"
#include "worker/pull.h"
#include "worker/push.h"

enum { RESULTS_MAX = 1 << 30 };

/* ---- errors of a step's calls */

/* Keeps the thread's error text as the step's, and returns the code. */
static int failed(struct coxi_attempt *attempt, int code)
{
    (void)snprintf(attempt->text, sizeof(attempt->text), "%s", coxi_error_text());
    return code;
}

static const char *api_error(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->text;
}

static int api_fail(struct cox_step *step, int code, const char *format, va_list args)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    char text[COXI_STEP_TEXT_MAX]; /* an argument may be the old text */
    (void)vsnprintf(text, sizeof(text), format, args);
    memcpy(attempt->text, text, sizeof(text));
    attempt->step_code = code;
    attempt->step_failed = true;
    return code != 0 ? code : COX_ESTEP;
}

/* ---- the closure and its arguments */

/* Finds the result that `taken` names among the kept results of its closure. */
static int find_taken(const struct coxi_held *held, const struct coxi_taken *taken,
                      struct cox_value *ret)
{
    struct cox_value values[COXI_VALUES_MAX];
    size_t n = 0;
    size_t i = 0;
    int r = coxi_values_unpack(held->values.data, held->values.len, values, &n);
    while (r == 0 && i < n && strcmp(values[i].name, taken->result) != 0) {
        i++;
    }
    if (r != 0 || i == n) {
        char names[COXI_NAMES_TEXT];
        coxi_values_names(values, n, names);
        return coxi_error(COX_ENOENT, "closure %llu returned no '%s'; it returned: %s",
                          (unsigned long long)taken->closure, taken->result, names);
    }
    *ret = values[i];
    ret->name = taken->name;
    return 0;
}

/* Inserts a kept result among the arguments. */
static int insert_taken(struct coxi_attempt *attempt, const struct coxi_taken *taken)
{
    struct coxi_held *held = coxi_results_get(&attempt->run->results, taken->closure);
    if (held == NULL) {
        return coxi_error(
            COX_ENOENT, "the results of closure %llu are not kept on worker %u",
            (unsigned long long)taken->closure, attempt->run->options.worker);
    }
    if (attempt->n_args == COXI_VALUES_MAX || taken->position > attempt->n_args) {
        coxi_held_unref(held);
        return coxi_error(COX_EPROTO, "argument '%s' is out of place", taken->name);
    }
    attempt->held[attempt->n_held++] = held;
    struct cox_value *at = &attempt->args[taken->position];
    memmove(at + 1, at, (attempt->n_args - taken->position) * sizeof(*at));
    attempt->n_args++;
    return find_taken(held, taken, at);
}

/* Unpacks the arguments that came with the call. */
static int unpack_arguments(struct coxi_attempt *attempt)
{
    attempt->n_args = 0;
    attempt->args_ready = true;
    return coxi_values_unpack(attempt->call.args, attempt->call.args_len, attempt->args,
                              &attempt->n_args);
}

int coxi_step_arguments(struct coxi_attempt *attempt)
{
    int r = attempt->call.n_taken > 0 ? unpack_arguments(attempt) : 0;
    for (uint32_t i = 0; r == 0 && i < attempt->call.n_taken; i++) {
        r = insert_taken(attempt, &attempt->call.taken[i]);
    }
    return r;
}

/* The argument that steps do not see, which comes first; NULL: there is none. */
static const struct cox_value *hidden_argument(struct coxi_attempt *attempt)
{
    if (!attempt->args_ready) {
        /* This succeeds, because the client packed them and a damaged frame does not
         * come this far. */
        (void)unpack_arguments(attempt);
    }
    bool has = attempt->n_args > 0 && attempt->args[0].name[0] == COXI_RESERVED;
    return has ? &attempt->args[0] : NULL;
}

const struct cox_value *coxi_step_task(struct coxi_attempt *attempt)
{
    const struct cox_value *hidden = hidden_argument(attempt);
    bool has = hidden != NULL && strcmp(hidden->name, COXI_TASK_ARGUMENT) == 0;
    return has ? hidden : NULL;
}

static size_t api_arguments(struct cox_step *step, const struct cox_value **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    size_t hidden = hidden_argument(attempt) != NULL;
    *ret = attempt->args + hidden;
    return attempt->n_args - hidden;
}

/* A step gives out the next batch of its task: see batches.h. */
static int api_batch(struct cox_step *step, struct cox_batch *ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct cox_batch batch = COX_BATCH_INIT;
    int r = coxi_struct_check(COXI_STRUCT_BATCH, ret);
    if (r == 0) {
        r = coxi_batches_next(attempt, &batch);
    }
    if (r == 0) {
        r = coxi_struct_return(ret, COXI_STRUCT_BATCH, &batch);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

static uint64_t api_seed(struct cox_step *step)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    if (attempt->making == NULL) {
        return attempt->seed;
    }
    /* For a resource: a number that no closure has. */
    uint64_t number = UINT64_MAX - attempt->head.attempt;
    return coxi_hash_key(attempt->run->session.run ^ coxi_hash_key(number));
}

static void api_rate_step(struct cox_step *step, uint64_t s)
{
    ((struct coxi_attempt *)step)->rate_step = s;
}

static int api_weight(struct cox_step *step, double weight)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    if (!isfinite(weight) || weight < 0 || weight > FLT_MAX) {
        return failed(attempt, coxi_error(COX_EINVAL,
                                          "a step counts %g times in its round: the "
                                          "weight is a finite number from 0 on",
                                          weight));
    }
    attempt->weight = (float)weight;
    return 0;
}

static uint64_t api_closure(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->head.closure;
}

static uint32_t api_attempt(struct cox_step *step)
{
    const struct coxi_attempt *attempt = (const struct coxi_attempt *)step;
    return attempt->making != NULL ? 0 : attempt->head.attempt;
}

static uint32_t api_worker(struct cox_step *step)
{
    return ((struct coxi_attempt *)step)->run->options.worker;
}

static int api_cancelled(struct cox_step *step)
{
    return coxi_running_cancelled(((struct coxi_attempt *)step)->running) ? 1 : 0;
}

static int api_variable(struct cox_step *step, const char *name,
                        struct cox_variable **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    const struct coxi_names *names = &attempt->run->variables.names;
    struct cox_variable *found =
        (struct cox_variable *)coxi_names_get(names, name, strlen(name));
    if (found == NULL) {
        return failed(attempt,
                      coxi_error(COX_ENOENT, "no variable is called '%s'", name));
    }
    *ret = found;
    return 0;
}

static int api_shape(struct cox_step *step, const struct cox_variable *variable,
                     uint32_t *ret_dtype, uint32_t *ret_rank,
                     uint64_t ret_shape[COX_RANK_MAX])
{
    (void)step;
    const struct coxi_variable *v = variable->description;
    *ret_dtype = v->dtype;
    *ret_rank = v->rank;
    memcpy(ret_shape, v->shape, sizeof(v->shape));
    return 0;
}

/* COX_EINVAL if the step makes a resource: then it must not do this. */
static int check_closure(const struct coxi_attempt *attempt, const char *what)
{
    return attempt->making == NULL
               ? 0
               : coxi_error(COX_EINVAL, "resource '%s': its function %s",
                            attempt->making->name, what);
}

static int add_result(struct coxi_attempt *attempt, const struct cox_value *value)
{
    size_t size = 0;
    int r = coxi_values_size(value, 1, &size);
    if (r == 0 && value->name != NULL && value->name[0] == COXI_RESERVED) {
        r = coxi_error(COX_EINVAL, "the name of a result begins with \\1");
    }
    if (r == 0 && (size > RESULTS_MAX || attempt->results.len > RESULTS_MAX - size)) {
        r = coxi_error(COX_ELIMIT, "the results have more than %d bytes", RESULTS_MAX);
    }
    return r == 0 ? coxi_values_add(&attempt->results, value) : r;
}

/* A step whose result is refused must not succeed, even if it ignores the error. */
static int api_result(struct cox_step *step, const struct cox_value *value)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "has no results");
    if (r == 0) {
        r = add_result(attempt, value);
        r = r == 0 ? 0 : coxi_attempt_break(attempt, r);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

static int log_scalar(struct coxi_attempt *attempt, const char *name, double value)
{
    size_t len = name != NULL ? strnlen(name, COXI_SCALARS_NAME_MAX + 1) : 0;
    if (len == 0 || len > COXI_SCALARS_NAME_MAX) {
        return coxi_error(COX_EINVAL, "the name of a scalar has 1 to %d bytes",
                          COXI_SCALARS_NAME_MAX);
    }
    if (attempt->n_scalars == COXI_SCALARS_MAX) {
        return coxi_error(COX_ELIMIT,
                          "a step logs at most %d scalars, and '%s' is one more",
                          COXI_SCALARS_MAX, name);
    }
    int r = coxi_scalars_add(&attempt->scalars, name, value);
    attempt->n_scalars += r == 0;
    return r;
}

static int api_log_scalar(struct cox_step *step, const char *name, double value)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "logs nothing");
    if (r == 0) {
        r = log_scalar(attempt, name, value);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

/* ---- pulls and updates */

static int api_pull(struct cox_step *step, const struct cox_pull *pulls, size_t n_pulls)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_fetch *fetch = NULL;
    int r = coxi_pull_begin(attempt, pulls, n_pulls, true, &fetch);
    if (r == 0) {
        r = coxi_pull_wait(attempt, fetch);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

static int api_pull_begin(struct cox_step *step, const struct cox_pull *pulls,
                          size_t n_pulls, struct cox_pulling **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_fetch *fetch = NULL;
    int r = coxi_pull_begin(attempt, pulls, n_pulls, false, &fetch);
    if (r != 0) {
        return failed(attempt, r);
    }
    *ret = (struct cox_pulling *)fetch; /* the step's handle of it */
    return 0;
}

static int api_pull_wait(struct cox_step *step, struct cox_pulling *pulling)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = coxi_pull_wait(attempt, (struct coxi_fetch *)pulling);
    return r == 0 ? 0 : failed(attempt, r);
}

/* Ends a call that collects something. If it failed, a part may be collected: breaks
 * the attempt. */
static int collected(struct coxi_attempt *attempt, int r)
{
    return r == 0 ? 0 : failed(attempt, coxi_attempt_break(attempt, r));
}

static int api_update(struct cox_step *step, struct cox_variable *variable, uint32_t op,
                      const struct cox_rows *rows, const void *values)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_push(attempt, variable, op, rows, values);
    }
    return collected(attempt, r);
}

static int api_metric_add(struct cox_step *step, struct cox_variable *metric,
                          double value, double weight)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_metric_push(attempt, metric->description, value, weight);
    }
    return collected(attempt, r);
}

static int api_metric_auc(struct cox_step *step, struct cox_variable *metric,
                          const float *labels, const float *scores, size_t n)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_metric_push_auc(attempt, metric->description, labels, scores, n);
    }
    return collected(attempt, r);
}

static int api_loss_scale(struct cox_step *step, struct cox_variable *scale, float *ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_loss_scale_ask(attempt, scale, ret);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

static int api_flush(struct cox_step *step)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0 && attempt->broken == 0) {
        r = coxi_accumulate_push(attempt, 1);
        r = r == 0 ? 0 : coxi_attempt_break(attempt, r);
    }
    if (r == 0) {
        r = coxi_commit_flush(attempt);
    }
    return r == 0 ? 0 : failed(attempt, r);
}

/* ---- rows that the step keeps from call to call */

static int api_accumulate(struct cox_step *step, struct cox_variable *variable,
                          const struct cox_rows *rows, const float *gradient)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_accumulate(attempt, variable, rows, gradient);
    }
    return collected(attempt, r);
}

static int api_push_accumulated(struct cox_step *step, float scale)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "updates nothing");
    if (r == 0) {
        r = coxi_accumulate_push(attempt, scale);
    }
    return collected(attempt, r);
}

static int api_local_pull(struct cox_step *step, const struct cox_pull *pulls,
                          size_t n_pulls)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "makes no local steps");
    if (r == 0) {
        r = coxi_local_pull(attempt, pulls, n_pulls);
    }
    return collected(attempt, r);
}

static int api_local_rate(struct cox_step *step, struct cox_variable *variable,
                          float learning_rate)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "makes no local steps");
    if (r == 0) {
        r = coxi_local_rate(attempt, variable, learning_rate);
    }
    return collected(attempt, r);
}

static int api_local_step(struct cox_step *step, struct cox_variable *variable,
                          const struct cox_rows *rows, const float *gradient)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "makes no local steps");
    if (r == 0) {
        r = coxi_local_step(attempt, variable, rows, gradient);
    }
    return collected(attempt, r);
}

static int api_local_push(struct cox_step *step, float scale)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    int r = check_closure(attempt, "makes no local steps");
    if (r == 0) {
        r = coxi_local_push(attempt, scale);
    }
    return collected(attempt, r);
}

void coxi_step_returned(struct coxi_attempt *attempt)
{
    if (attempt->broken == 0) {
        int r = coxi_local_end(attempt);
        (void)collected(attempt, r == 0 ? coxi_accumulate_push(attempt, 1) : r);
    }
}

/* ---- resources */

static int api_keep(struct cox_step *step, void *value, void (*release)(void *value))
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_kept *kept = attempt->making;
    if (kept == NULL || kept->kept) {
        return failed(
            attempt,
            coxi_error(COX_EINVAL, kept == NULL
                                       ? "only a resource's function keeps something"
                                       : "a resource's function keeps one thing"));
    }
    kept->kept = true;
    kept->value = value;
    kept->release = release;
    return 0;
}

/* The resource called `name` that this step was handed before, or NULL. */
static struct coxi_kept *find_used(const struct coxi_attempt *attempt, const char *name)
{
    struct coxi_kept **used = (struct coxi_kept **)(void *)attempt->used.data;
    for (size_t i = 0; i < attempt->used.len / sizeof(struct coxi_kept *); i++) {
        if (strcmp(used[i]->name, name) == 0) {
            return used[i];
        }
    }
    return NULL;
}

/*
 * Looks the resource up, and notes that it is in use until the step returns. A step
 * that makes a resource finds the same resources as a closure that was scheduled when
 * its own resource was created.
 */
static int use(struct coxi_attempt *attempt, const char *name, struct coxi_kept **ret)
{
    struct coxi_resources *resources = &attempt->run->resources;
    struct coxi_kept *kept = NULL;
    if (attempt->used.len / sizeof(struct coxi_kept *) == COXI_RESOURCES_MAX) {
        return coxi_error(COX_ELIMIT, "a step uses more than %d resources",
                          COXI_RESOURCES_MAX);
    }
    uint64_t closure =
        attempt->making != NULL ? attempt->making->position : attempt->head.closure;
    int r = coxi_resources_use(resources, name, closure, &kept);
    if (r != 0) {
        return r;
    }
    r = coxi_buffer_append_raw(&attempt->used, &kept, sizeof(struct coxi_kept *));
    if (r != 0) {
        coxi_resources_unuse(resources, kept);
        return r;
    }
    *ret = kept;
    return 0;
}

static int api_resource(struct cox_step *step, const char *name, void **ret)
{
    struct coxi_attempt *attempt = (struct coxi_attempt *)step;
    struct coxi_kept *kept = find_used(attempt, name);
    int r = kept != NULL ? 0 : use(attempt, name, &kept);
    if (r == 0 && kept->code != 0) {
        attempt->unmade = kept;
        r = coxi_attempt_unmade(attempt);
    }
    if (r != 0) {
        return failed(attempt, r);
    }
    *ret = kept->value;
    return 0;
}

const struct cox_step_api coxi_step_api = {
    .size = sizeof(coxi_step_api),
    .error = api_error,
    .fail = api_fail,
    .arguments = api_arguments,
    .seed = api_seed,
    .closure = api_closure,
    .attempt = api_attempt,
    .worker = api_worker,
    .variable = api_variable,
    .shape = api_shape,
    .pull = api_pull,
    .update = api_update,
    .result = api_result,
    .cancelled = api_cancelled,
    .flush = api_flush,
    .keep = api_keep,
    .resource = api_resource,
    .pull_begin = api_pull_begin,
    .pull_wait = api_pull_wait,
    .metric_add = api_metric_add,
    .metric_auc = api_metric_auc,
    .rate_step = api_rate_step,
    .loss_scale = api_loss_scale,
    .batch = api_batch,
    .weight = api_weight,
    .accumulate = api_accumulate,
    .push_accumulated = api_push_accumulated,
    .local_pull = api_local_pull,
    .local_rate = api_local_rate,
    .local_step = api_local_step,
    .local_push = api_local_push,
    .log_scalar = api_log_scalar,
};
