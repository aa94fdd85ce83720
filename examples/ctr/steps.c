/*
 * The step module of the click model: what runs on the workers.
 *
 * `train` takes the rows of its task in batches. For each batch it pulls the parameters
 * of the features that occur in it, and pushes their gradients. The pushes are applied,
 * once on every parameter server, when the step returns 0.
 *
 * Arguments: l2, factors_l2 (F64)
 * The metric "loss" is the mean log loss of a row of the run; the scalar "loss", which each
 * step logs, that of a row of its task.
 */
#include <coxswain/step.h>

#include "model.h"

struct task {
    struct cox_variable *bias;
    struct cox_variable *weights;
    struct cox_variable *factors; /* NULL: the client has made no such table */
    struct cox_variable *loss;
    float l2;
    float factors_l2;
    double loss_sum; /* of the rows so far */
    double rows;
};

static int begin(struct cox_step *step, struct task *ret)
{
    const double *l2 = cox_step_scalar(step, "l2", COX_F64);
    const double *factors_l2 = cox_step_scalar(step, "factors_l2", COX_F64);
    if (l2 == NULL || factors_l2 == NULL) {
        return cox_step_fail(step, 1, "train needs l2 and factors_l2");
    }
    ret->l2 = (float)*l2;
    ret->factors_l2 = (float)*factors_l2;
    int r = cox_step_variable(step, "bias", &ret->bias);
    r = r != 0 ? r : cox_step_variable(step, "weights", &ret->weights);
    r = r != 0 ? r : cox_step_variable(step, "loss", &ret->loss);
    if (r == 0 && cox_step_variable(step, "factors", &ret->factors) == COX_ENOENT) {
        ret->factors = NULL;
    }
    return r;
}

/* A feature is listed as often as it occurs: pulls transfer it once, and pushes sum its
 * gradients. */
static int pull(struct cox_step *step, const struct task *task,
                const struct cox_batch *batch, struct model *model)
{
    struct cox_rows rows = cox_rows_listed(batch->keys, batch->begin[batch->n]);
    const struct cox_pull pulls[] = {
        {task->bias, cox_rows_all(), &model->bias, 0},
        {task->weights, rows, model->weights, 0},
        {task->factors, rows, model->factors, 0},
    };
    return cox_step_pull(step, pulls, task->factors != NULL ? 3 : 2);
}

static int push(struct cox_step *step, const struct task *task,
                const struct cox_batch *batch, const struct model *gradient)
{
    size_t n = batch->begin[batch->n];
    int r = cox_step_push(step, task->bias, &gradient->bias);
    if (r == 0) {
        r = cox_step_push_rows(step, task->weights, batch->keys, n, gradient->weights);
    }
    if (r == 0 && task->factors != NULL) {
        r = cox_step_push_rows(step, task->factors, batch->keys, n, gradient->factors);
    }
    return r;
}

/* One step of gradient descent; memory for parameters and gradients is given. */
static int learn(struct cox_step *step, struct task *task,
                 const struct cox_batch *batch, struct model *model,
                 struct model *gradient)
{
    int r = pull(step, task, batch, model);
    if (r != 0) {
        return r;
    }
    double n = (double)batch->n;
    double loss = model_gradient(model, batch, task->l2, task->factors_l2, gradient);
    task->loss_sum += loss;
    task->rows += n;
    r = push(step, task, batch, gradient);
    return r == 0 ? cox_step_metric_add(step, task->loss, loss / n, n) : r;
}

static int train_batch(struct cox_step *step, struct task *task,
                       const struct cox_batch *batch)
{
    struct model model;
    struct model gradient;
    size_t n = batch->begin[batch->n];
    int ready = model_init(&model, n, task->factors != NULL);
    ready = model_init(&gradient, n, task->factors != NULL) && ready;
    int r = ready ? learn(step, task, batch, &model, &gradient)
                  : cox_step_fail(step, 2, "out of memory");
    model_fini(&model);
    model_fini(&gradient);
    return r;
}

static int train(struct cox_step *step)
{
    struct task task = {0};
    struct cox_batch batch = COX_BATCH_INIT;
    int r = begin(step, &task);
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        r = train_batch(step, &task, &batch);
    }
    if (r == COX_EEOF && task.rows > 0) { /* a point of the curve of this run */
        return cox_step_log_scalar(step, "loss", task.loss_sum / task.rows);
    }
    return r == COX_EEOF ? 0 : r;
}

COX_STEPS(COX_STEP("train", train));
