/* Steps that each do one thing, which their arguments choose, so that a test sees its
 * effect. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>

#include "wait.h"

#include "follow.h"

enum { FLOATS_MAX = 4096 };

static const char *text(struct cox_step *step, const char *name)
{
    const struct cox_value *value = cox_step_argument(step, name);
    return value != NULL ? (const char *)value->data : "";
}

static int64_t number(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* The elements of argument `name`, or NULL where there is none such. */
static const void *vector(struct cox_step *step, const char *name, size_t *ret_n)
{
    const struct cox_value *value = cox_step_argument(step, name);
    if (ret_n != NULL) {
        *ret_n = value != NULL ? value->shape[0] : 0;
    }
    return value != NULL ? value->data : NULL;
}

static int give(struct cox_step *step, const char *name, uint64_t value)
{
    const int64_t given = (int64_t)value;
    const struct cox_value result = COX_SCALAR(name, COX_I64, &given);
    return cox_step_return(step, &result);
}

/* The rows that the arguments name: `keys`; or `count` rows from `begin` on; or all. */
static struct cox_rows rows(struct cox_step *step)
{
    size_t n = 0;
    const uint64_t *keys = (const uint64_t *)vector(step, "keys", &n);
    if (keys != NULL) {
        return cox_rows_listed(keys, n);
    }
    if (cox_step_argument(step, "count") != NULL) {
        return cox_rows_slice((uint64_t)number(step, "begin"),
                              (size_t)number(step, "count"));
    }
    return cox_rows_all();
}

/* Updates rows of variable `variable` by operation `op` with `values`, if these are
 * given. Then returns `result`. */
static int update(struct cox_step *step)
{
    struct cox_variable *variable;
    int r = cox_step_variable(step, text(step, "variable"), &variable);
    if (r == 0) {
        r = cox_step_update(step, variable, (enum cox_update)number(step, "op"),
                            rows(step), vector(step, "values", NULL));
    }
    return r != 0 ? r : (int)number(step, "result");
}

/* As update, but ignores the result of the update. */
static int update_blindly(struct cox_step *step)
{
    (void)update(step);
    return 0;
}

static int update_and_fail(struct cox_step *step)
{
    int r = update(step);
    return r != 0 ? r : cox_step_fail(step, 42, "line %d is odd", 7);
}

/* Pulls rows of `variable` and returns the first `n` floats. */
static int pull(struct cox_step *step)
{
    static float values[FLOATS_MAX];
    struct cox_pull wanted = {.values = values};
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    if (r != 0) {
        return r;
    }
    wanted.rows = rows(step);
    wanted.flags = (uint32_t)number(step, "flags");
    r = cox_step_pull(step, &wanted, 1);
    const struct cox_value result =
        COX_VECTOR("values", COX_F32, (uint64_t)number(step, "n"), values);
    return r != 0 ? r : cox_step_return(step, &result);
}

/* Pulls all rows of `variable`, however large it is, and returns no floats. */
static int pull_big(struct cox_step *step)
{
    struct cox_pull wanted = {.flags = (uint32_t)number(step, "flags")};
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX] = {0};
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    r = r != 0 ? r : cox_step_shape(step, wanted.variable, &dtype, &rank, shape);
    if (r != 0) {
        return r;
    }
    wanted.values = malloc(shape[0] * shape[1] * sizeof(float));
    r = cox_step_pull(step, &wanted, 1);
    free(wanted.values);
    return r;
}

/* As pull, but ignores the result of the pull, and returns `result`. */
static int pull_blindly(struct cox_step *step)
{
    (void)pull(step);
    return (int)number(step, "result");
}

static int pull_into_nothing(struct cox_step *step)
{
    struct cox_pull wanted = {0};
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    wanted.rows = rows(step);
    return r != 0 ? r : cox_step_pull(step, &wanted, 1);
}

/* Pulls 2 rows of a table without naming their keys, which is an error. */
static int pull_without_keys(struct cox_step *step)
{
    static float values[FLOATS_MAX];
    struct cox_pull wanted = {.rows = cox_rows_listed(NULL, 2), .values = values};
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    return r != 0 ? r : cox_step_pull(step, &wanted, 1);
}

/* Pulls d1, d2, d3 (60 floats each) and rows of t (2 floats each), all in one call,
 * rows before, between and after. Returns them under their names. */
static int pull_all(struct cox_step *step)
{
    static const char *const names[] = {"t", "d1", "d2", "t", "d3", "t"};
    static float values[6][FLOATS_MAX];
    struct cox_pull pulls[6] = {{0}};
    size_t n_keys = 0;
    const uint64_t *keys = (const uint64_t *)vector(step, "keys", &n_keys);
    for (int i = 0; i < 6; i++) {
        int r = cox_step_variable(step, names[i], &pulls[i].variable);
        if (r != 0) {
            return r;
        }
        pulls[i].rows =
            names[i][0] == 't' ? cox_rows_listed(keys, n_keys) : cox_rows_all();
        pulls[i].values = values[i];
    }
    int r = cox_step_pull(step, pulls, 6);
    for (int i = 0; r == 0 && i < 6; i++) {
        const char *const results[] = {"t1", "d1", "d2", "t2", "d3", "t3"};
        const struct cox_value result = COX_VECTOR(
            results[i], COX_F32, names[i][0] == 't' ? n_keys * 2 : 60, values[i]);
        r = cox_step_return(step, &result);
    }
    return r;
}

/* Returns the loss scale `scale`, and tells it whether the gradients overflowed. */
static int scale(struct cox_step *step)
{
    struct cox_variable *variable;
    float found = 0;
    const struct cox_value result = COX_SCALAR("scale", COX_F32, &found);
    int r = cox_step_variable(step, "scale", &variable);
    r = r != 0 ? r : cox_step_loss_scale(step, variable, &found);
    r = r != 0 ? r : cox_step_return(step, &result);
    return r != 0 ? r
                  : cox_step_loss_scale_update(step, variable,
                                               number(step, "overflowed") != 0);
}

/* Asks for the loss scale `scale`, pushes `values` as gradients of `variable` (if
 * `late`, it pushes before it asks), and adds 1 to "counter". If `tells` is 1 or 2,
 * reports whether the gradients `overflowed`: 1: before the push; 2: at the end. */
static int scaled(struct cox_step *step)
{
    struct cox_variable *variable;
    struct cox_variable *counter;
    struct cox_variable *scale_of = NULL;
    const int64_t one = 1;
    const int64_t tells = number(step, "tells");
    float found = 0;
    int r = cox_step_variable(step, text(step, "variable"), &variable);
    r = r != 0 ? r : cox_step_variable(step, "counter", &counter);
    r = r != 0 ? r : cox_step_variable(step, "scale", &scale_of);
    if (r == 0 && number(step, "late") == 0) {
        r = cox_step_loss_scale(step, scale_of, &found);
    }
    if (r == 0 && tells == 1) {
        r = cox_step_loss_scale_update(step, scale_of, number(step, "overflowed") != 0);
    }
    r = r != 0 ? r
               : cox_step_update(step, variable, COX_UPDATE_GRADIENT, rows(step),
                                 vector(step, "values", NULL));
    r = r != 0 ? r : cox_step_add(step, counter, &one);
    if (r == 0 && number(step, "late") != 0) {
        r = cox_step_loss_scale(step, scale_of, &found);
    }
    if (r == 0 && tells == 2) {
        r = cox_step_loss_scale_update(step, scale_of, number(step, "overflowed") != 0);
    }
    return r;
}

/* Adds `values` with `weights` to metric `variable`, one after the other. If there are
 * `labels`, adds all `values` at once, as scores. If there is `assigned`, assigns that
 * to the metric before it adds the last value. Then returns `result`. */
static int measure(struct cox_step *step)
{
    struct cox_variable *metric;
    size_t n = 0;
    const float *values = (const float *)vector(step, "values", &n);
    const float *weights = (const float *)vector(step, "weights", NULL);
    const float *labels = (const float *)vector(step, "labels", NULL);
    int r = cox_step_variable(step, text(step, "variable"), &metric);
    if (r == 0 && labels != NULL) {
        return cox_step_metric_auc(step, metric, labels, values, n);
    }
    const double *assigned = (const double *)vector(step, "assigned", NULL);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (assigned != NULL && i + 1 == n) {
            r = cox_step_assign(step, metric, assigned);
        }
        r = r != 0 ? r : cox_step_metric_add(step, metric, values[i], weights[i]);
    }
    return r != 0 ? r : (int)number(step, "result");
}

/* How step `begin` waits for its pulls. */
enum { WAIT_ALL, WAIT_NONE, WAIT_TWICE, WAIT_AFTER_FLUSH, WAIT_CANCELLED };

/* Begins `n` pulls of `variable` (rows as they are given), each into its own array. Then
 * waits for them as `how` says, the last one first, and returns the first float of
 * each. */
static int begin(struct cox_step *step)
{
    enum { PULLS_MAX = 16, EACH = FLOATS_MAX / PULLS_MAX };
    float values[PULLS_MAX][EACH]; /* not valid after this returns */
    struct cox_pulling *pulling[PULLS_MAX] = {NULL};
    float first[PULLS_MAX] = {0};
    int64_t n = number(step, "n");
    int64_t how = number(step, "how");
    struct cox_pull wanted = {0};
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    wanted.rows = rows(step);
    for (int64_t i = 0; r == 0 && i < n; i++) {
        wanted.values = values[i];
        r = cox_pull_begin(step, &wanted, 1, &pulling[i]);
    }
    if (r != 0 || how == WAIT_NONE) {
        return r;
    }
    if (how == WAIT_AFTER_FLUSH) {
        const float ones[EACH] = {1, 1, 1};
        r = cox_step_add(step, wanted.variable, ones);
        r = r != 0 ? r : cox_step_flush(step);
    }
    if (how == WAIT_CANCELLED) {
        r = wait_cancelled(step);
    }
    for (int64_t i = n; r == 0 && i-- > 0;) {
        r = cox_pull_wait(step, pulling[i]);
        first[i] = values[i][0];
    }
    if (r == 0 && how == WAIT_TWICE) {
        r = cox_pull_wait(step, pulling[0]);
    }
    const struct cox_value result = COX_VECTOR("values", COX_F32, (uint64_t)n, first);
    return r != 0 ? r : cox_step_return(step, &result);
}

/* Returns `n` results. */
static int give_many(struct cox_step *step)
{
    int r = 0;
    for (int64_t i = 0; r == 0 && i < number(step, "n"); i++) {
        r = give(step, "one", (uint64_t)i);
    }
    return r;
}

/* Returns `n` results, or one that claims to have `bytes` bytes, and ignores whether
 * they are accepted. */
static int give_blindly(struct cox_step *step)
{
    static const uint8_t none[1];
    const int64_t bytes = number(step, "bytes");
    const struct cox_value large = COX_VECTOR("large", COX_U8, (uint64_t)bytes, none);
    if (bytes > 0) {
        (void)cox_step_return(step, &large);
    }
    for (int64_t i = 0; i < number(step, "n"); i++) {
        (void)give(step, "one", (uint64_t)i);
    }
    return 0;
}

/* Fails with the text of an error that it has met. */
static int fail_with_its_error(struct cox_step *step)
{
    struct cox_variable *nowhere;
    (void)cox_step_variable(step, "nowhere", &nowhere);
    return cox_step_fail(step, 5, "it said: %s", cox_step_error(step));
}

/* Returns a result under the name that argument `name` holds. */
static int give_named(struct cox_step *step)
{
    return give(step, text(step, "name"), 7);
}

/* Returns what it is told about itself. */
static int identify(struct cox_step *step)
{
    int r = give(step, "seed", cox_step_seed(step));
    r = r != 0 ? r : give(step, "closure", cox_step_closure(step));
    r = r != 0 ? r : give(step, "attempt", cox_step_attempt(step));
    return r != 0 ? r : give(step, "worker", cox_step_worker(step));
}

static int describe(struct cox_step *step)
{
    struct cox_variable *variable;
    uint32_t dtype = 0;
    uint32_t rank = 0;
    uint64_t shape[COX_RANK_MAX] = {0};
    int r = cox_step_variable(step, text(step, "variable"), &variable);
    r = r != 0 ? r : cox_step_shape(step, variable, &dtype, &rank, shape);
    r = r != 0 ? r : give(step, "dtype", dtype);
    r = r != 0 ? r : give(step, "rank", rank);
    r = r != 0 ? r : give(step, "rows", shape[0]);
    return r != 0 ? r : give(step, "columns", shape[1]);
}

static int add_one(struct cox_step *step, const char *name)
{
    struct cox_variable *variable;
    const int64_t one = 1;
    int r = cox_step_variable(step, name, &variable);
    return r != 0 ? r : cox_step_add(step, variable, &one);
}

/* Adds 1 to `variable`, if that is given, unless the wait before has failed
 * (`waited`). */
static int add_after(struct cox_step *step, int waited)
{
    return waited != 0 || cox_step_argument(step, "variable") == NULL
               ? waited
               : add_one(step, text(step, "variable"));
}

static int wait_and_add(struct cox_step *step)
{
    return add_after(step, wait_at(step));
}

/* Then returns `result`. */
static int wait_cancelled_and_add(struct cox_step *step)
{
    int r = add_after(step, wait_cancelled(step));
    return r != 0 ? r : (int)number(step, "result");
}

/* Never checks whether it is cancelled, but ends when a pull of `variable` fails. */
static int pull_until_it_fails(struct cox_step *step)
{
    static float values[FLOATS_MAX];
    struct cox_pull wanted = {.values = values};
    int fd = open_gate(step);
    int r = cox_step_variable(step, text(step, "variable"), &wanted.variable);
    while (fd >= 0 && r == 0) {
        r = cox_step_pull(step, &wanted, 1);
    }
    (void)close(fd);
    return r;
}

static int give_c0(struct cox_step *step)
{
    int64_t seen = -1;
    struct cox_pull wanted = {.values = &seen};
    int r = cox_step_variable(step, "c0", &wanted.variable);
    r = r != 0 ? r : cox_step_pull(step, &wanted, 1);
    return r != 0 ? r : give(step, "seen", (uint64_t)seen);
}

static int follow_one(struct cox_step *step, int64_t what)
{
    static const char *const counters[] = {"c0", "c1", "c2"};
    const int64_t none = 0;
    struct cox_variable *variable = NULL;
    switch (what) {
    case FOLLOW_FLUSH:
        return cox_step_flush(step);
    case FOLLOW_FLUSH_BLINDLY:
        (void)cox_step_flush(step);
        return 0;
    case FOLLOW_PULL:
        return give_c0(step);
    case FOLLOW_RUN:
        return wait_cancelled(step);
    case FOLLOW_WAIT:
        return wait_at(step);
    case FOLLOW_SPOIL:
        (void)cox_step_variable(step, "c0", &variable);
        (void)cox_step_update(step, variable, (enum cox_update)99, cox_rows_all(),
                              &none);
        return 0;
    case 0:
    case 1:
    case 2:
        return add_one(step, counters[what]);
    default:
        return cox_step_fail(step, 42, "line %d is odd", 7);
    }
}

/* Follows the commands (enum follow) in the I64 vector `script`; a later attempt follows
 * those in `again`, if that is given. */
static int follow(struct cox_step *step)
{
    size_t n = 0;
    bool first = cox_step_attempt(step) == 1;
    const int64_t *script = (const int64_t *)vector(step, "again", &n);
    if (first || script == NULL) {
        script = (const int64_t *)vector(step, "script", &n);
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = follow_one(step, script[i]);
    }
    return r;
}

COX_STEPS(COX_STEP("update", update), COX_STEP("update_blindly", update_blindly),
          COX_STEP("update_and_fail", update_and_fail), COX_STEP("pull", pull),
          COX_STEP("pull_blindly", pull_blindly),
          COX_STEP("pull_into_nothing", pull_into_nothing),
          COX_STEP("pull_without_keys", pull_without_keys), COX_STEP("scale", scale),
          COX_STEP("scaled", scaled), COX_STEP("measure", measure),
          COX_STEP("begin", begin), COX_STEP("pull_big", pull_big),
          COX_STEP("pull_all", pull_all), COX_STEP("give_many", give_many),
          COX_STEP("give_blindly", give_blindly),
          COX_STEP("fail_with_its_error", fail_with_its_error),
          COX_STEP("give_named", give_named), COX_STEP("identify", identify),
          COX_STEP("describe", describe), COX_STEP("wait_at", wait_and_add),
          COX_STEP("wait_cancelled", wait_cancelled_and_add),
          COX_STEP("pull_until_it_fails", pull_until_it_fails),
          COX_STEP("follow", follow));
