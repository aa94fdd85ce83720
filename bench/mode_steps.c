/*
 * The steps of case `modes`: a gradient of the dense variable "weights".
 *
 * train     pulls, and pushes the gradient. Arguments, both optional (I64): `us`: it takes
 *           so many microseconds longer; `slow`: 1 + the index of a worker on which that
 *           is MODES_SLOW times as long
 * member    pulls, and returns the gradient as result "gradient"
 * reduce    pushes the mean of the inputs "0" to "3"; returns "done"
 */
#include <stdlib.h>
#include <time.h>

#include <coxswain/step.h>

#include "bench/modes.h"

static int64_t scalar(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* Takes longer, without computing. */
static void linger(struct cox_step *step)
{
    int64_t us = scalar(step, "us");
    int64_t slow = scalar(step, "slow");
    us *= slow > 0 && cox_step_worker(step) == (uint32_t)slow - 1 ? MODES_SLOW : 1;
    struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    if (us > 0) {
        (void)nanosleep(&rest, NULL);
    }
}

/* Pulls the weights, and computes their gradient. */
static int differentiate(struct cox_step *step, struct cox_variable **ret_weights,
                         float ret[MODES_WEIGHTS])
{
    float weights[MODES_WEIGHTS];
    int r = cox_step_variable(step, "weights", ret_weights);
    const struct cox_pull pull = {*ret_weights, cox_rows_all(), weights, 0};
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    for (int i = 0; r == 0 && i < MODES_WEIGHTS; i++) {
        ret[i] = weights[i] - 1;
    }
    return r;
}

static int train(struct cox_step *step)
{
    struct cox_variable *weights = NULL;
    float gradient[MODES_WEIGHTS];
    int r = differentiate(step, &weights, gradient);
    linger(step);
    return r != 0 ? r : cox_step_push(step, weights, gradient);
}

static int member(struct cox_step *step)
{
    struct cox_variable *weights = NULL;
    float gradient[MODES_WEIGHTS];
    const struct cox_value result =
        COX_VECTOR("gradient", COX_F32, MODES_WEIGHTS, gradient);
    int r = differentiate(step, &weights, gradient);
    return r != 0 ? r : cox_step_return(step, &result);
}

static int reduce(struct cox_step *step)
{
    static const char *const names[MODES_MEMBERS] = {"0", "1", "2", "3"};
    struct cox_variable *weights;
    float mean[MODES_WEIGHTS] = {0};
    const int64_t one = 1;
    const struct cox_value done = COX_SCALAR("done", COX_I64, &one);
    for (int m = 0; m < MODES_MEMBERS; m++) {
        const struct cox_value *gradient = cox_step_argument(step, names[m]);
        if (gradient == NULL || gradient->shape[0] != MODES_WEIGHTS) {
            return cox_step_fail(step, 1, "no gradient %s", names[m]);
        }
        for (int i = 0; i < MODES_WEIGHTS; i++) {
            mean[i] += ((const float *)gradient->data)[i] / MODES_MEMBERS;
        }
    }
    int r = cox_step_variable(step, "weights", &weights);
    r = r != 0 ? r : cox_step_push(step, weights, mean);
    return r != 0 ? r : cox_step_return(step, &done);
}

COX_STEPS(COX_STEP("train", train), COX_STEP("member", member),
          COX_STEP("reduce", reduce));
