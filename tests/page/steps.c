/* The step of client.c. Its name is text that a page must not take for HTML. */
#include <stdint.h>
#include <time.h>

#include <coxswain/step.h>

/* Adds one, and logs a value. It takes as long as a step does that computes: the run is
 * looked at for seconds, and nothing waits for this. */
static int work(struct cox_step *step)
{
    struct cox_variable *total;
    const int64_t one = 1;
    const struct timespec length = {.tv_nsec = 2000000};
    int r = cox_step_variable(step, "total", &total);
    r = r != 0 ? r : cox_step_add(step, total, &one);
    (void)nanosleep(&length, NULL);
    return r != 0 ? r : cox_step_log_scalar(step, "loss", 0.7);
}

COX_STEPS(COX_STEP("<b/onclick=alert(1)>work</b>", work));
