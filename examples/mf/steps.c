/*
 * The steps of the example. A rating of user u for item i is predicted as
 *
 *     mean + b_u + b_i + p_u . q_i
 *
 *   train   pushes the gradient of half the squared error, with a penalty of l2 / 2 times
 *           the squared parameters for each rating
 *   test    adds the squared errors to the metric "test"
 *
 * Columns of the data sets: the rating is the label, user and item are the keys.
 */
#include <coxswain/step.h>

#include <stdlib.h>

#include "mf.h"

struct work {
    float *rows;      /* of user and item of each rating, one after the other */
    float *gradients; /* the same */
    uint64_t *keys;
};

/* Pulls the rows of all users and items of the batch. */
static int pull(struct cox_step *step, const struct cox_batch *batch,
                struct cox_variable *table, const struct work *work)
{
    for (uint64_t i = 0; i < 2 * batch->n; i++) {
        work->keys[i] = 2 * batch->keys[i] + i % 2; /* user, item, user, item ... */
    }
    const struct cox_pull pull = {table, cox_rows_listed(work->keys, 2 * batch->n),
                                  work->rows, 0};
    return cox_step_pull(step, &pull, 1);
}

/* Prediction minus rating of each; fills the gradients. Returns the sum of squares. */
static double compute(const struct cox_batch *batch, const struct work *work,
                      float mean, float l2)
{
    double squares = 0;
    for (uint64_t r = 0; r < batch->n; r++) {
        const float *p = work->rows + 2 * r * MF_DIM;
        const float *q = p + MF_DIM;
        float *p_gradient = work->gradients + 2 * r * MF_DIM;
        float *q_gradient = p_gradient + MF_DIM;
        float error = mean + p[0] + q[0] - batch->labels[r];
        for (int f = 1; f < MF_DIM; f++) {
            error += p[f] * q[f];
        }
        p_gradient[0] = error + l2 * p[0];
        q_gradient[0] = error + l2 * q[0];
        for (int f = 1; f < MF_DIM; f++) {
            p_gradient[f] = error * q[f] + l2 * p[f];
            q_gradient[f] = error * p[f] + l2 * q[f];
        }
        squares += (double)error * (double)error;
    }
    return squares;
}

/* Trains on a batch or, if l2 is below 0, adds its errors to the metric. */
static int run_batch(struct cox_step *step, const struct cox_batch *batch, float mean,
                     float l2)
{
    struct cox_variable *table = NULL;
    struct cox_variable *test = NULL;
    size_t n = 2 * (size_t)batch->n;
    struct work work = {malloc(n * MF_DIM * sizeof(float)),
                        malloc(n * MF_DIM * sizeof(float)),
                        malloc(n * sizeof(uint64_t))};
    int r = work.rows == NULL || work.gradients == NULL || work.keys == NULL
                ? cox_step_fail(step, 1, "out of memory")
                : cox_step_variable(step, "factors", &table);
    r = r != 0 ? r : cox_step_variable(step, "test", &test);
    if (r == 0 && batch->begin[batch->n] != n) {
        r = cox_step_fail(step, 2, "a rating has a user and an item");
    }
    r = r != 0 ? r : pull(step, batch, table, &work);
    if (r == 0) {
        double squares = compute(batch, &work, mean, l2);
        r = l2 >= 0 ? cox_step_push_rows(step, table, work.keys, n, work.gradients)
                    : cox_step_metric_add(step, test, squares / (double)batch->n,
                                          (double)batch->n);
    }
    free(work.rows);
    free(work.gradients);
    free(work.keys);
    return r;
}

static int run_task(struct cox_step *step, float l2)
{
    struct cox_batch batch = COX_BATCH_INIT;
    const double *mean = cox_step_scalar(step, "mean", COX_F64);
    int r = 0;
    if (mean == NULL) {
        return cox_step_fail(step, 2, "a step needs a mean");
    }
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        r = run_batch(step, &batch, (float)*mean, l2);
    }
    return r == COX_EEOF ? 0 : r;
}

static int train(struct cox_step *step)
{
    const double *l2 = cox_step_scalar(step, "l2", COX_F64);
    return l2 != NULL ? run_task(step, (float)*l2)
                      : cox_step_fail(step, 2, "train needs l2");
}

static int test(struct cox_step *step)
{
    return run_task(step, -1);
}

COX_STEPS(COX_STEP("train", train), COX_STEP("test", test));
