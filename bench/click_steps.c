/*
 * The step of case `train`: a click model of its own, beside that of examples/ctr. It stays
 * as it is, so that figures can be compared over time, and reads its rows itself, so that
 * it runs without a cluster, too.
 *
 * `train` takes a range of lines of a file, pulls the weights of the features that
 * occur in it, and pushes their gradients. Pushes are applied, once on every parameter
 * server, when the step returns 0.
 *
 * `train_logged` does the same and logs its mean loss.
 *
 * Arguments: path (U8 vector), offset, len, line (I64: struct range), l2 (F64)
 * Results:   rows (I64), loss (F64: sum of log losses)
 */
#include <coxswain/step.h>

#include <stdlib.h>
#include <string.h>

#include "bench/click_model.h"

struct task {
    char path[1024];
    struct range range;
    float l2;
};

/* Reads the arguments; the client and this function agree on names and types. */
static int read_task(struct cox_step *step, struct task *ret)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    const int64_t *offset = cox_step_scalar(step, "offset", COX_I64);
    const int64_t *len = cox_step_scalar(step, "len", COX_I64);
    const int64_t *line = cox_step_scalar(step, "line", COX_I64);
    const double *l2 = cox_step_scalar(step, "l2", COX_F64);
    if (path == NULL || path->rank != 1 || path->shape[0] >= sizeof(ret->path) ||
        offset == NULL || len == NULL || line == NULL || l2 == NULL) {
        return cox_step_fail(step, 1, "train needs path, offset, len, line and l2");
    }
    memcpy(ret->path, path->data, path->shape[0]);
    ret->path[path->shape[0]] = '\0';
    ret->range = (struct range){*offset, *len, *line};
    ret->l2 = (float)*l2;
    return 0;
}

/* One step of gradient descent on the rows; memory for weights and gradients is
 * given. */
static int learn(struct cox_step *step, const struct rows *rows,
                 struct cox_variable *weights, struct cox_variable *bias, uint32_t dim,
                 float l2, float *w, float *gradients, double *ret_loss)
{
    float b = 0;
    float bias_gradient = 0;
    struct cox_pull pulls[] = {
        {weights, cox_rows_listed(rows->keys, rows->n_keys), w, 0},
        {bias, cox_rows_all(), &b, 0},
    };
    int r = cox_step_pull(step, pulls, 2);
    if (r != 0) {
        return r;
    }
    double loss = model_gradient(rows, w, dim, b, l2, gradients, &bias_gradient);
    *ret_loss = loss;
    r = cox_step_push_rows(step, weights, rows->keys, rows->n_keys, gradients);
    if (r == 0) {
        r = cox_step_push(step, bias, &bias_gradient);
    }
    const int64_t n_rows = (int64_t)rows->n_rows;
    const struct cox_value results[] = {
        COX_SCALAR("rows", COX_I64, &n_rows),
        COX_SCALAR("loss", COX_F64, &loss),
    };
    for (int i = 0; r == 0 && i < 2; i++) {
        r = cox_step_return(step, &results[i]);
    }
    return r;
}

static int train_on(struct cox_step *step, double *ret_mean_loss)
{
    struct task task = {0};
    struct rows rows;
    struct data_error error;
    struct cox_variable *weights;
    struct cox_variable *bias;
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    int r = read_task(step, &task);
    if (r == 0) {
        r = cox_step_variable(step, "weights", &weights);
    }
    if (r == 0) {
        r = cox_step_variable(step, "bias", &bias);
    }
    if (r == 0) {
        r = cox_step_shape(step, weights, &dtype, &rank, shape);
    }
    if (r != 0) {
        return r;
    }
    if (rows_read(task.path, task.range.offset, task.range.len, task.range.line, &rows,
                  &error) != 0) {
        return cox_step_fail(step, 2, "%s", error.text);
    }
    uint32_t dim = (uint32_t)shape[0];
    float *w = malloc((rows.n_keys + 1) * dim * sizeof(*w));
    float *gradients = malloc((rows.n_keys + 1) * dim * sizeof(*gradients));
    r = w == NULL || gradients == NULL ? cox_step_fail(step, 3, "out of memory")
                                       : learn(step, &rows, weights, bias, dim, task.l2,
                                               w, gradients, ret_mean_loss);
    *ret_mean_loss /= (double)rows.n_rows;
    free(w);
    free(gradients);
    rows_free(&rows);
    return r;
}

static int train(struct cox_step *step)
{
    double mean_loss = 0;
    return train_on(step, &mean_loss);
}

static int train_logged(struct cox_step *step)
{
    double mean_loss = 0;
    int r = train_on(step, &mean_loss);
    return r != 0 ? r : cox_step_log_scalar(step, "loss", mean_loss);
}

COX_STEPS(COX_STEP("train", train), COX_STEP("train_logged", train_logged));
