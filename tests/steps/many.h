/* 256 steps that do nothing. */
#ifndef COXI_TESTS_STEPS_MANY_H
#define COXI_TESTS_STEPS_MANY_H

#include <coxswain/step.h>

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

#define STEP(high, low)        COX_STEP("s" #high #low, nothing)
#define STEPS_4(h, a, b, c, d) STEP(h, a), STEP(h, b), STEP(h, c), STEP(h, d)
#define STEPS_16(h)                                                                    \
    STEPS_4(h, 0, 1, 2, 3), STEPS_4(h, 4, 5, 6, 7), STEPS_4(h, 8, 9, a, b),            \
        STEPS_4(h, c, d, e, f)
#define STEPS_64(a, b, c, d) STEPS_16(a), STEPS_16(b), STEPS_16(c), STEPS_16(d)
#define STEPS_256                                                                      \
    STEPS_64(0, 1, 2, 3), STEPS_64(4, 5, 6, 7), STEPS_64(8, 9, a, b),                  \
        STEPS_64(c, d, e, f)

#endif
