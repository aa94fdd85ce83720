/* Steps for the benchmark. */
#include <coxswain/step.h>

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

/* Pushes a gradient to one row of the table "rows". */
static int push_row(struct cox_step *step)
{
    static const float gradient[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct cox_variable *rows;
    uint64_t key = cox_step_seed(step) % 100000;
    int r = cox_step_variable(step, "rows", &rows);
    return r != 0 ? r : cox_step_push_rows(step, rows, &key, 1, gradient);
}

/* Returns its argument. */
static int echo(struct cox_step *step)
{
    const struct cox_value *values;
    size_t n = cox_step_arguments(step, &values);
    return n == 1 ? cox_step_return(step, values) : 1;
}

COX_STEPS(COX_STEP("nothing", nothing), COX_STEP("push_row", push_row),
          COX_STEP("echo", echo));
