/* A module that ends the process that loads it. */
#include <stdlib.h>

#include <coxswain/step.h>

__attribute__((constructor)) static void end(void)
{
    abort();
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEPS(COX_STEP("nothing", nothing));
