/* A module built against a step.h of another ABI. */
#include <coxswain/step.h>

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEP_EXPORT_ const struct cox_step_entry cox_steps[] = {{"nothing", nothing}};
COX_STEP_EXPORT_ const struct cox_steps_header cox_steps_header_ = {
    COX_STEP_MAGIC, COX_STEP_ABI + 7, 1, sizeof(struct cox_step_entry)};
