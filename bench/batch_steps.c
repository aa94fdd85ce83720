/*
 * The steps of `train`'s measurements of data sets: the click model of examples/ctr, on
 * batches of a data set, or on batches that the worker has in memory.
 *
 * train_data   the batches of the closure's task
 * train_kept   batches `first` to `first` + `n` - 1 of the resource BATCH_KEPT, from the
 *              beginning again after the last one
 * keep         makes the resource
 *
 * Argument `segments` (I64) of the first two: 1: each batch is flushed.
 */
#include <coxswain/step.h>

#include <stdlib.h>
#include <string.h>

#include "bench/batch_steps.h"
#include "examples/ctr/model.h"
#include "examples/ctr/rows.h"

struct parameters {
    struct cox_variable *bias;
    struct cox_variable *weights;
    struct cox_variable *factors; /* NULL: logistic regression */
};

static int find_parameters(struct cox_step *step, struct parameters *ret)
{
    int r = cox_step_variable(step, "bias", &ret->bias);
    r = r != 0 ? r : cox_step_variable(step, "weights", &ret->weights);
    if (r == 0 && cox_step_variable(step, "factors", &ret->factors) == COX_ENOENT) {
        ret->factors = NULL;
    }
    return r;
}

/* ---- one batch */

static int learn(struct cox_step *step, const struct parameters *p,
                 const struct cox_batch *batch, struct model *model,
                 struct model *gradient)
{
    size_t n = batch->begin[batch->n];
    struct cox_rows rows = cox_rows_listed(batch->keys, n);
    const struct cox_pull pulls[] = {
        {p->bias, cox_rows_all(), &model->bias, 0},
        {p->weights, rows, model->weights, 0},
        {p->factors, rows, model->factors, 0},
    };
    int r = cox_step_pull(step, pulls, p->factors != NULL ? 3 : 2);
    if (r != 0) {
        return r;
    }
    (void)model_gradient(model, batch, 0.0001F, 0.003F, gradient);
    r = cox_step_push(step, p->bias, &gradient->bias);
    r = r != 0
            ? r
            : cox_step_push_rows(step, p->weights, batch->keys, n, gradient->weights);
    return r != 0 || p->factors == NULL
               ? r
               : cox_step_push_rows(step, p->factors, batch->keys, n,
                                    gradient->factors);
}

static int train_batch(struct cox_step *step, const struct parameters *p,
                       const struct cox_batch *batch, int64_t segments)
{
    struct model model;
    struct model gradient;
    size_t n = batch->begin[batch->n];
    int ready = model_init(&model, n, p->factors != NULL);
    ready = model_init(&gradient, n, p->factors != NULL) && ready;
    int r = ready ? learn(step, p, batch, &model, &gradient)
                  : cox_step_fail(step, 1, "out of memory");
    model_fini(&model);
    model_fini(&gradient);
    return r != 0 || segments == 0 ? r : cox_step_flush(step);
}

/* ---- batches of a data set */

static int train_data(struct cox_step *step)
{
    const int64_t *segments = cox_step_scalar(step, "segments", COX_I64);
    struct parameters p;
    struct cox_batch batch = COX_BATCH_INIT;
    if (segments == NULL) {
        return cox_step_fail(step, 2, "it needs segments");
    }
    int r = find_parameters(step, &p);
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        r = train_batch(step, &p, &batch, *segments);
    }
    return r == COX_EEOF ? 0 : r;
}

/* ---- batches in memory */

struct kept {
    struct rows rows;
    size_t n;
    struct cox_batch *batches;
    uint64_t (*begins)[BATCH_ROWS + 1];
};

static void kept_free(void *arg)
{
    struct kept *kept = arg;
    free(kept->batches);
    free(kept->begins);
    rows_free(&kept->rows);
    free(kept);
}

/* Cuts the rows into batches, whose features each begin with 0; the last rows are left
 * out. */
static int cut(struct kept *kept)
{
    const struct rows *rows = &kept->rows;
    kept->n = (size_t)rows->batch.n / BATCH_ROWS;
    kept->batches = calloc(kept->n + 1, sizeof(*kept->batches));
    kept->begins = calloc(kept->n + 1, sizeof(*kept->begins));
    if (kept->batches == NULL || kept->begins == NULL) {
        return -1;
    }
    for (size_t i = 0; i < kept->n; i++) {
        const uint64_t *begin = rows->begin + i * BATCH_ROWS;
        for (size_t r = 0; r <= BATCH_ROWS; r++) {
            kept->begins[i][r] = begin[r] - begin[0];
        }
        kept->batches[i] = (struct cox_batch){.n = BATCH_ROWS,
                                              .labels = rows->labels + i * BATCH_ROWS,
                                              .begin = kept->begins[i],
                                              .keys = rows->keys + begin[0],
                                              .values = rows->values + begin[0]};
    }
    return 0;
}

static int keep(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    char name[1024];
    struct kept *kept = calloc(1, sizeof(*kept));
    if (kept == NULL || path == NULL || path->rank != 1 ||
        path->shape[0] >= sizeof(name)) {
        free(kept);
        return cox_step_fail(step, 1, "rows need a path, and memory");
    }
    memcpy(name, path->data, path->shape[0]);
    name[path->shape[0]] = '\0';
    if (rows_read(name, &kept->rows) != 0 || cut(kept) != 0 || kept->n == 0) {
        kept_free(kept);
        return cox_step_fail(step, 2, "cannot keep the rows of %s", name);
    }
    return cox_step_keep(step, kept, kept_free);
}

static int train_kept(struct cox_step *step)
{
    const int64_t *segments = cox_step_scalar(step, "segments", COX_I64);
    const int64_t *first = cox_step_scalar(step, "first", COX_I64);
    const int64_t *n = cox_step_scalar(step, "n", COX_I64);
    struct parameters p;
    void *value = NULL;
    if (segments == NULL || first == NULL || n == NULL) {
        return cox_step_fail(step, 2, "it needs segments, first and n");
    }
    int r = cox_step_resource(step, BATCH_KEPT, &value);
    const struct kept *kept = value;
    r = r != 0 ? r : find_parameters(step, &p);
    for (int64_t i = 0; r == 0 && i < *n; i++) {
        r = train_batch(step, &p, &kept->batches[(size_t)(*first + i) % kept->n],
                        *segments);
    }
    return r;
}

COX_STEPS(COX_STEP("train_data", train_data), COX_STEP("train_kept", train_kept),
          COX_STEP("keep", keep));
