/* Steps that count: the sums tell how often each ran. */
#include <coxswain/step.h>

/* Adds 1 to the variables c0, c1, ... (argument n: how many). */
static int count(struct cox_step *step)
{
    static const char *const names[] = {"c0", "c1", "c2", "c3"};
    const int64_t one = 1;
    const int64_t *n = (const int64_t *)cox_step_scalar(step, "n", COX_I64);
    if (n == NULL || *n < 0 || *n > 4) {
        return cox_step_fail(step, 1, "count needs an argument n from 0 to 4");
    }
    for (int64_t i = 0; i < *n; i++) {
        struct cox_variable *counter;
        int r = cox_step_variable(step, names[i], &counter);
        if (r == 0) {
            r = cox_step_add(step, counter, &one);
        }
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

/* Returns its arguments. */
static int echo(struct cox_step *step)
{
    const struct cox_value *values;
    size_t n = cox_step_arguments(step, &values);
    for (size_t i = 0; i < n; i++) {
        int r = cox_step_return(step, &values[i]);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

/* Adds 1 to c0 and then fails: the addition must not count. */
static int count_and_fail(struct cox_step *step)
{
    const int64_t one = 1;
    struct cox_variable *counter;
    int r = cox_step_variable(step, "c0", &counter);
    if (r == 0) {
        r = cox_step_add(step, counter, &one);
    }
    return r != 0 ? r : cox_step_fail(step, 42, "line %d is odd", 7);
}

COX_STEPS(COX_STEP("count", count), COX_STEP("nothing", nothing),
          COX_STEP("echo", echo), COX_STEP("count_and_fail", count_and_fail));
