/* The plainest step that trains: one pull, one push. */
#include <coxswain/step.h>

static int train(struct cox_step *step)
{
    struct cox_variable *weights;
    float values[8];
    int r = cox_step_variable(step, "weights", &weights);
    if (r == 0) {
        struct cox_pull pull = {
            .variable = weights, .rows = cox_rows_all(), .values = values};
        r = cox_step_pull(step, &pull, 1);
    }
    if (r == 0) {
        r = cox_step_push(step, weights, values);
    }
    return r;
}

COX_STEPS(COX_STEP("train", train));
