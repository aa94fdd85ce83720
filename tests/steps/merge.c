/* Steps of several batches: pushed one by one, accumulated, or as local steps. */
#define _GNU_SOURCE
#include "wait.h"

#include "merge.h"

enum { FLOATS_MAX = 4096 };

static const void *vector(struct cox_step *step, const char *name, size_t *ret_n)
{
    const struct cox_value *value = cox_step_argument(step, name);
    *ret_n = value != NULL ? value->shape[0] : 0;
    return value != NULL ? value->data : NULL;
}

static int64_t number(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* The batch that begins with row `at` of the step's lists. */
struct batch {
    struct cox_variable *variable;
    struct cox_rows rows;
    const float *gradient;
};

static int local_batch(struct cox_step *step, const struct batch *batch,
                       size_t n_numbers, float *seen)
{
    const float *rate = (const float *)cox_step_scalar(step, "rate", COX_F32);
    struct cox_pull pull = {batch->variable, batch->rows, seen, 0};
    int r = n_numbers > FLOATS_MAX ? COX_ELIMIT : 0;
    if (r == 0 && number(step, "unpulled") == 0) {
        r = cox_local_pull(step, &pull, 1);
    }
    if (r == 0 && rate != NULL) {
        r = cox_local_rate(step, batch->variable, *rate);
    }
    return r != 0 ? r
                  : cox_local_step(step, batch->variable, batch->rows, batch->gradient);
}

static int push_all(struct cox_step *step, int64_t mode)
{
    const float *scale = (const float *)cox_step_scalar(step, "scale", COX_F32);
    if (scale == NULL) {
        return 0;
    }
    return mode == MERGE_LOCAL        ? cox_local_push(step, *scale)
           : mode == MERGE_ACCUMULATE ? cox_step_push_accumulated(step, *scale)
                                      : 0;
}

static struct cox_rows rows_of(int64_t form, const uint64_t *keys, size_t n)
{
    return form == COX_ROWS_ALL     ? cox_rows_all()
           : form == COX_ROWS_SLICE ? cox_rows_slice(keys[0], n)
                                    : cox_rows_listed(keys, n);
}

/*
 * Arguments: variable; mode (enum merge_mode); sizes: of each batch; form: of the rows
 * of each (enum cox_rows_form); keys: of all batches, one after the other; values: their
 * gradients, of `width` numbers a row. Optional: scale: pushes with it at the end; flush:
 * pushes and flushes after so many batches, too; rate; unpulled: local steps without a pull;
 * scaled: asks for loss scale `scale` first; late: before the second batch; path: waits there after the last batch in
 * its first attempt; result: is returned. Result `seen`: the values before each local
 * step.
 */
static int batches(struct cox_step *step)
{
    size_t n = 0;
    size_t n_batches = 0;
    size_t row = 0;
    float seen[FLOATS_MAX];
    float found = 0;
    size_t n_seen = 0;
    const int64_t mode = number(step, "mode");
    const size_t width = (size_t)number(step, "width");
    const int64_t *sizes = (const int64_t *)vector(step, "sizes", &n_batches);
    const int64_t *forms = (const int64_t *)vector(step, "forms", &n);
    const uint64_t *keys = (const uint64_t *)vector(step, "keys", &n);
    const float *values = (const float *)vector(step, "values", &n);
    const char *name = (const char *)vector(step, "variable", &n);
    struct cox_variable *scale = NULL;
    struct batch batch = {NULL, {0, 0, NULL, 0}, NULL};
    int r = cox_step_variable(step, name, &batch.variable);
    if (r == 0 && number(step, "scaled") != 0) {
        r = cox_step_variable(step, "scale", &scale);
        r = r != 0 ? r : cox_step_loss_scale(step, scale, &found);
    }
    for (size_t i = 0; r == 0 && i < n_batches; i++) {
        if (i == 1 && number(step, "late") != 0) {
            r = cox_step_variable(step, "scale", &scale);
            r = r != 0 ? r : cox_step_loss_scale(step, scale, &found);
            if (r != 0) {
                return r;
            }
        }
        size_t size = (size_t)sizes[i];
        batch.rows = rows_of(forms != NULL ? forms[i] : COX_ROWS_LISTED,
                             keys != NULL ? keys + row : NULL, size);
        batch.gradient = values + row * width;
        if (mode == MERGE_LOCAL) {
            r = local_batch(step, &batch, n_seen + size * width, seen + n_seen);
            n_seen += size * width;
        } else if (mode == MERGE_ACCUMULATE) {
            r = cox_step_accumulate(step, batch.variable, batch.rows, batch.gradient);
        } else {
            r = cox_step_update(step, batch.variable, COX_UPDATE_GRADIENT, batch.rows,
                                batch.gradient);
        }
        row += size;
        if (r == 0 && number(step, "flush") == (int64_t)i + 1) {
            r = push_all(step, mode);
            r = r != 0 ? r : cox_step_flush(step);
        }
    }
    if (r == 0 && cox_step_argument(step, "path") != NULL &&
        cox_step_attempt(step) == 1) {
        r = wait_at(step);
    }
    r = r != 0 ? r : push_all(step, mode);
    if (r == 0 && n_seen > 0) {
        const struct cox_value result = COX_VECTOR("seen", COX_F32, n_seen, seen);
        r = cox_step_return(step, &result);
    }
    return r != 0 ? r : (int)number(step, "result");
}

static int batches_blindly(struct cox_step *step)
{
    (void)batches(step);
    return 0;
}

/* ---- records of a task, each of which adds 1 to its row */

static int count_batch(struct cox_step *step, struct cox_variable *rows,
                       const struct cox_batch *batch, int64_t mode)
{
    enum { MOST = 64 };
    uint64_t keys[MOST];
    float values[MOST];
    float gradient[MOST];
    struct cox_pull pull = {rows, cox_rows_listed(keys, batch->n), values, 0};
    int r = batch->n > MOST ? COX_ELIMIT : 0;
    for (uint64_t i = 0; r == 0 && i < batch->n; i++) {
        keys[i] = batch->keys[batch->begin[i]];
        gradient[i] = -1; /* the rate is 1 */
    }
    if (r == 0 && mode == MERGE_ACCUMULATE) {
        return cox_step_accumulate(step, rows, pull.rows, gradient);
    }
    r = r != 0 ? r : cox_local_pull(step, &pull, 1);
    return r != 0 ? r : cox_local_step(step, rows, pull.rows, gradient);
}

/* Arguments: variable; mode; flush: each batch is pushed and flushed; path: waits there
 * in its first attempt, before it pushes. */
static int count_merged(struct cox_step *step)
{
    size_t n = 0;
    const int64_t mode = number(step, "mode");
    const char *name = (const char *)vector(step, "variable", &n);
    struct cox_batch batch = COX_BATCH_INIT;
    struct cox_variable *rows;
    int r = cox_step_variable(step, name, &rows);
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        r = count_batch(step, rows, &batch, mode);
        if (r == 0 && number(step, "flush") != 0) {
            r = mode == MERGE_LOCAL ? cox_local_push(step, 1) : 0;
            r = r != 0 ? r : cox_step_flush(step);
        }
    }
    r = r == COX_EEOF ? 0 : r;
    if (r == 0 && cox_step_argument(step, "path") != NULL &&
        cox_step_attempt(step) == 1) {
        r = wait_at(step);
    }
    return r == 0 && mode == MERGE_LOCAL ? cox_local_push(step, 1) : r;
}

/* Pulls `a` (all rows, 2 numbers) and rows of `t` (2 numbers a row) at once, twice, with
 * a local step of both between; returns what it saw. */
static int pull_both(struct cox_step *step)
{
    const uint64_t keys[] = {9, 4, 9};
    const float gradient[] = {1, 2, 3, 4, 5, 6};
    float a[2] = {0};
    float t[6] = {0};
    float seen[16];
    struct cox_pull pulls[] = {{NULL, cox_rows_all(), a, 0},
                               {NULL, cox_rows_listed(keys, 3), t, 0},
                               {NULL, cox_rows_listed(keys, 1), t, 0}};
    int r = cox_step_variable(step, "a", &pulls[0].variable);
    r = r != 0 ? r : cox_step_variable(step, "t", &pulls[1].variable);
    pulls[2].variable = pulls[1].variable;
    for (int round = 0; r == 0 && round < 2; round++) {
        r = cox_local_pull(step, pulls, round == 0 ? 3 : 2);
        for (int i = 0; i < 8; i++) {
            seen[round * 8 + i] = i < 2 ? a[i] : t[i - 2];
        }
        r = r != 0 ? r
                   : cox_local_step(step, pulls[0].variable, pulls[0].rows, gradient);
        r = r != 0 ? r
                   : cox_local_step(step, pulls[1].variable, pulls[1].rows, gradient);
    }
    r = r != 0 ? r : cox_local_push(step, 1);
    const struct cox_value result = COX_VECTOR("seen", COX_F32, 16, seen);
    return r != 0 ? r : cox_step_return(step, &result);
}

/* Pulls key 3 of `t`, and steps with keys 3 and 4. */
static int step_other(struct cox_step *step)
{
    const uint64_t keys[] = {3, 4};
    const float gradient[] = {1, 1};
    float value = 0;
    struct cox_pull pull = {NULL, cox_rows_listed(keys, 1), &value, 0};
    int r = cox_step_variable(step, "t", &pull.variable);
    r = r != 0 ? r : cox_local_pull(step, &pull, 1);
    return r != 0 ? r
                  : cox_local_step(step, pull.variable, cox_rows_listed(keys, 2),
                                   gradient);
}

/* Pulls the first `rows` rows of `t`, of 1024 numbers, one by one. */
static int pull_many(struct cox_step *step)
{
    float values[1024];
    uint64_t key = 0;
    struct cox_pull pull = {NULL, cox_rows_listed(&key, 1), values, 0};
    int r = cox_step_variable(step, "t", &pull.variable);
    for (; r == 0 && key < (uint64_t)number(step, "rows"); key++) {
        r = cox_local_pull(step, &pull, 1);
    }
    return r;
}

/* Pulls all 10 rows of `d` and as many keys of `t`, and steps with 2 and 7 of each. */
static int step_some(struct cox_step *step)
{
    const uint64_t keys[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const uint64_t some[] = {7, 2};
    const float gradient[] = {1, 1};
    float values[10];
    struct cox_pull pulls[] = {{NULL, cox_rows_all(), values, 0},
                               {NULL, cox_rows_listed(keys, 10), values, 0}};
    int r = cox_step_variable(step, "d", &pulls[0].variable);
    r = r != 0 ? r : cox_step_variable(step, "t", &pulls[1].variable);
    r = r != 0 ? r : cox_local_pull(step, pulls, 2);
    for (int i = 0; r == 0 && i < 2; i++) {
        r = cox_local_step(step, pulls[i].variable, cox_rows_listed(some, 2), gradient);
    }
    return r != 0 ? r : cox_local_push(step, 1);
}

COX_STEPS(COX_STEP("step_other", step_other), COX_STEP("pull_many", pull_many),
          COX_STEP("step_some", step_some), COX_STEP("batches", batches),
          COX_STEP("batches_blindly", batches_blindly),
          COX_STEP("count_merged", count_merged), COX_STEP("pull_both", pull_both));
