/*
 * The step module of the example. Both steps take a range of rows, begin to end (I64).
 *
 *   train     pushes the rows' gradient, times the argument rate (F64): the variable's own
 *             rate is 1, so that the client can lower it as it goes
 *   evaluate  adds the rows to the metrics "loss" and "auc"; each range counts once, whatever
 *             happens to workers
 */
#include <coxswain/step.h>

#include "early_stop.h"

struct task {
    int64_t begin;
    int64_t end;
    struct cox_variable *variable;
    float w[DIM];
};

static int begin_task(struct cox_step *step, struct task *ret)
{
    const int64_t *begin = cox_step_scalar(step, "begin", COX_I64);
    const int64_t *end = cox_step_scalar(step, "end", COX_I64);
    if (begin == NULL || end == NULL || *begin < 0 || *end - *begin > RANGE) {
        return cox_step_fail(step, 1, "a task is a range of up to %d rows", RANGE);
    }
    ret->begin = *begin;
    ret->end = *end;
    int r = cox_step_variable(step, "w", &ret->variable);
    if (r == 0) {
        struct cox_pull pull = {ret->variable, cox_rows_all(), ret->w, 0};
        r = cox_step_pull(step, &pull, 1);
    }
    return r;
}

static int train(struct cox_step *step)
{
    struct task task = {0};
    float gradient[DIM] = {0};
    const double *rate = cox_step_scalar(step, "rate", COX_F64);
    int r = rate != NULL ? begin_task(step, &task)
                         : cox_step_fail(step, 1, "train needs a rate");
    for (int64_t row = task.begin; r == 0 && row < task.end; row++) {
        float features[DIM];
        float label = example_row(row, features);
        float error = example_score(features, task.w) - label;
        for (int i = 0; i < DIM; i++) {
            gradient[i] += (float)*rate * error * features[i] / RANGE;
        }
    }
    return r == 0 ? cox_step_push(step, task.variable, gradient) : r;
}

static int evaluate(struct cox_step *step)
{
    struct task task = {0};
    struct cox_variable *loss;
    struct cox_variable *auc;
    float labels[RANGE];
    float scores[RANGE];
    double sum = 0;
    int r = begin_task(step, &task);
    size_t n = r == 0 ? (size_t)(task.end - task.begin) : 0;
    for (size_t i = 0; i < n; i++) {
        float features[DIM];
        labels[i] = example_row(task.begin + (int64_t)i, features);
        scores[i] = example_score(features, task.w);
        sum += example_loss(scores[i], labels[i]);
    }
    if (r == 0) {
        r = cox_step_variable(step, "loss", &loss);
    }
    if (r == 0) {
        r = cox_step_variable(step, "auc", &auc);
    }
    if (r == 0 && n > 0) {
        r = cox_step_metric_add(step, loss, sum / (double)n, (double)n);
    }
    return r == 0 ? cox_step_metric_auc(step, auc, labels, scores, n) : r;
}

COX_STEPS(COX_STEP("train", train), COX_STEP("evaluate", evaluate));
