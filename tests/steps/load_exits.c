/* A module that ends the process that loads it by an exit. A sanitizer does the same in
 * a module, because it must be loaded before the program's other libraries. */
#include <stdlib.h>

#include <coxswain/step.h>

__attribute__((constructor)) static void end(void)
{
    _Exit(1);
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEPS(COX_STEP("nothing", nothing));
