/* A module that needs a function which nobody has. */
#include <coxswain/step.h>

int cox_test_function_that_nobody_has(void);

static int call(struct cox_step *step)
{
    (void)step;
    return cox_test_function_that_nobody_has();
}

COX_STEPS(COX_STEP("call", call));
