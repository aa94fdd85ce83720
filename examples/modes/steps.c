/*
 * The steps of the example of modes. Each trains on the rows whose numbers are its
 * argument, one batch after the other. Every worker keeps all rows of the training file
 * as a resource, so no rows travel.
 *
 *   train        pulls the parameters of a batch, and pushes their gradients
 *   accumulate   pushes the sum of all batches' gradients
 *   local        trains on copies of the parameters, and pushes by how much they changed
 *
 * Arguments: rows (I32 vector), batch (I64: rows of a gradient), place (I64: batches
 * before these in the run), pause (I64: milliseconds), l2 (F64)
 *
 * `load` makes the resource. Argument: path (U8 vector). `ready` waits for it.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <coxswain/step.h>

#include "model.h"
#include "rows.h"

enum how { TRAIN, ACCUMULATE, LOCAL };

struct task {
    enum how how;
    struct cox_variable *bias;
    struct cox_variable *weights;
    const struct rows *all;
    const int32_t *rows;
    size_t n_rows;
    size_t batch;
    int64_t pause_ms; /* between the first pull and its gradient */
    float l2;
};

/* Rows that were copied from the resource: a batch. */
struct picked {
    struct cox_batch batch;
    float *labels;
    uint64_t *begin;
    uint64_t *keys;
    float *values;
    struct model model;
    struct model gradient;
};

/* ---- the resource */

static void release(void *value)
{
    rows_free(value);
    free(value);
}

static int load(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    char text[4096];
    if (path == NULL || path->rank != 1 || path->shape[0] >= sizeof(text)) {
        return cox_step_fail(step, 1, "load needs a path");
    }
    memcpy(text, path->data, path->shape[0]);
    text[path->shape[0]] = '\0';
    struct rows *rows = calloc(1, sizeof(*rows));
    if (rows == NULL) {
        return cox_step_fail(step, 2, "out of memory");
    }
    if (rows_read(text, rows) != 0) {
        release(rows);
        return cox_step_fail(step, 3, "%s cannot be read", text);
    }
    return cox_step_keep(step, rows, release);
}

static int ready(struct cox_step *step)
{
    void *ignored;
    return cox_step_resource(step, "rows", &ignored);
}

/* ---- a batch */

static void picked_fini(struct picked *picked)
{
    free(picked->labels);
    free(picked->begin);
    free(picked->keys);
    free(picked->values);
    model_fini(&picked->model);
    model_fini(&picked->gradient);
}

/* Memory for rows with n_features features together; 0: there is none left. */
static int picked_init(struct picked *picked, size_t n_rows, size_t n_features)
{
    *picked = (struct picked){
        .batch = COX_BATCH_INIT,
        .labels = malloc(n_rows * sizeof(float)),
        .begin = malloc((n_rows + 1) * sizeof(uint64_t)),
        .keys = malloc((n_features + 1) * sizeof(uint64_t)),
        .values = malloc((n_features + 1) * sizeof(float)),
    };
    int ready = model_init(&picked->model, n_features, 0);
    ready = model_init(&picked->gradient, n_features, 0) && ready;
    picked->batch.labels = picked->labels;
    picked->batch.begin = picked->begin;
    picked->batch.keys = picked->keys;
    picked->batch.values = picked->values;
    return ready && picked->labels != NULL && picked->begin != NULL &&
           picked->keys != NULL && picked->values != NULL;
}

static size_t count_features(const struct task *task, size_t first, size_t n)
{
    const uint64_t *begin = task->all->begin;
    size_t n_features = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t row = task->rows[first + i];
        n_features += begin[row + 1] - begin[row];
    }
    return n_features;
}

static void copy_rows(const struct task *task, size_t first, size_t n,
                      struct picked *ret)
{
    const struct rows *all = task->all;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t row = task->rows[first + i];
        uint64_t from = all->begin[row];
        uint64_t features = all->begin[row + 1] - from;
        ret->labels[i] = all->labels[row];
        ret->begin[i] = at;
        memcpy(ret->keys + at, all->keys + from, features * sizeof(*ret->keys));
        memcpy(ret->values + at, all->values + from, features * sizeof(*ret->values));
        at += features;
    }
    ret->begin[n] = at;
    ret->batch.n = n;
}

/* ---- training */

static int pull(struct cox_step *step, const struct task *task, struct picked *picked)
{
    const struct cox_batch *batch = &picked->batch;
    const struct cox_pull pulls[] = {
        {task->bias, cox_rows_all(), &picked->model.bias, 0},
        {task->weights, cox_rows_listed(batch->keys, batch->begin[batch->n]),
         picked->model.weights, 0},
    };
    return task->how == LOCAL ? cox_local_pull(step, pulls, 2)
                              : cox_step_pull(step, pulls, 2);
}

static int push(struct cox_step *step, const struct task *task,
                struct cox_variable *variable, struct cox_rows rows,
                const float *gradient)
{
    switch (task->how) {
    case TRAIN:
        return cox_step_update(step, variable, COX_UPDATE_GRADIENT, rows, gradient);
    case ACCUMULATE:
        return cox_step_accumulate(step, variable, rows, gradient);
    case LOCAL:
        return cox_local_step(step, variable, rows, gradient);
    }
    return COX_EINVAL;
}

static void pause_once(struct task *task)
{
    struct timespec left = {task->pause_ms / 1000, task->pause_ms % 1000 * 1000000};
    task->pause_ms = 0;
    while (nanosleep(&left, &left) != 0) {
    }
}

static int train_batch(struct cox_step *step, struct task *task, size_t first, size_t n)
{
    struct picked picked;
    size_t n_features = count_features(task, first, n);
    if (!picked_init(&picked, n, n_features)) {
        picked_fini(&picked);
        return cox_step_fail(step, 2, "out of memory");
    }
    copy_rows(task, first, n, &picked);
    int r = pull(step, task, &picked);
    if (r == 0) {
        pause_once(task);
        (void)model_gradient(&picked.model, &picked.batch, task->l2, 0,
                             &picked.gradient);
        r = push(step, task, task->bias, cox_rows_all(), &picked.gradient.bias);
    }
    if (r == 0) {
        r = push(step, task, task->weights, cox_rows_listed(picked.keys, n_features),
                 picked.gradient.weights);
    }
    picked_fini(&picked);
    return r;
}

/* Reads the arguments; the client and this function agree on names and types. */
static int begin(struct cox_step *step, struct task *task)
{
    const struct cox_value *rows = cox_step_argument(step, "rows");
    const int64_t *batch = cox_step_scalar(step, "batch", COX_I64);
    const int64_t *place = cox_step_scalar(step, "place", COX_I64);
    const int64_t *pause = cox_step_scalar(step, "pause", COX_I64);
    const double *l2 = cox_step_scalar(step, "l2", COX_F64);
    void *all = NULL;
    if (rows == NULL || rows->dtype != COX_I32 || rows->rank != 1 || batch == NULL ||
        *batch < 1 || place == NULL || pause == NULL || l2 == NULL) {
        return cox_step_fail(step, 1, "a step needs rows, batch, place, pause and l2");
    }
    int r = cox_step_resource(step, "rows", &all);
    r = r != 0 ? r : cox_step_variable(step, "bias", &task->bias);
    r = r != 0 ? r : cox_step_variable(step, "weights", &task->weights);
    if (r != 0) {
        return r;
    }
    task->all = all;
    task->rows = rows->data;
    task->n_rows = rows->shape[0];
    task->batch = (size_t)*batch;
    task->pause_ms = *pause;
    task->l2 = (float)*l2;
    for (size_t i = 0; i < task->n_rows; i++) {
        if (task->rows[i] < 0 || (uint64_t)task->rows[i] >= task->all->batch.n) {
            return cox_step_fail(step, 4, "there is no row %d", task->rows[i]);
        }
    }
    /* The learning rate falls with the examples, however many of them a closure has. */
    cox_step_rate_step(step, (uint64_t)*place);
    return 0;
}

static int run(struct cox_step *step, enum how how)
{
    struct task task = {.how = how};
    int r = begin(step, &task);
    for (size_t i = 0; r == 0 && i < task.n_rows; i += task.batch) {
        size_t left = task.n_rows - i;
        r = train_batch(step, &task, i, left < task.batch ? left : task.batch);
    }
    if (r == 0 && how == ACCUMULATE) {
        r = cox_step_push_accumulated(step, 1);
    }
    return r == 0 && how == LOCAL ? cox_local_push(step, 1) : r;
}

static int train(struct cox_step *step)
{
    return run(step, TRAIN);
}

static int accumulate(struct cox_step *step)
{
    return run(step, ACCUMULATE);
}

static int local(struct cox_step *step)
{
    return run(step, LOCAL);
}

COX_STEPS(COX_STEP("train", train), COX_STEP("accumulate", accumulate),
          COX_STEP("local", local), COX_STEP("load", load), COX_STEP("ready", ready));
