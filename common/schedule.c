/* See schedule.h. Computed in double, because millions of steps lie between 0 and 1. */
#include "common/schedule.h"

#include <math.h>

#include "common/rule.h"

static double decayed(const struct coxi_schedule *s, double base, uint64_t step)
{
    static const double pi = 3.141592653589793;
    double end = (double)s->end_rate;
    double gamma = (double)s->gamma;
    double done = (double)step / (double)s->steps;
    uint64_t whole = step / s->steps;
    double left = done < 1 ? 1 - done : 0;
    switch ((enum coxi_schedule_kind)s->kind) {
    case COXI_SCHEDULE_LINEAR:
        return end + (base - end) * left;
    case COXI_SCHEDULE_POLYNOMIAL:
        return end + (base - end) * pow(left, (double)s->power);
    case COXI_SCHEDULE_EXPONENTIAL:
        return base * pow(gamma, done);
    case COXI_SCHEDULE_STEP:
        return base * pow(gamma, (double)whole);
    case COXI_SCHEDULE_COSINE:
        return end + (base - end) * (1 + cos(pi * (1 - left))) / 2;
    case COXI_SCHEDULE_CONSTANT:
    case COXI_SCHEDULE_END:
        break;
    }
    return base;
}

float coxi_learning_rate(const struct coxi_schedule *schedule, float base,
                         uint64_t step)
{
    uint64_t warmup = schedule->warmup_steps;
    if (step < warmup) {
        return (float)((double)base * (double)step / (double)warmup);
    }
    if (schedule->kind == COXI_SCHEDULE_CONSTANT) {
        return base;
    }
    return (float)decayed(schedule, (double)base, step - warmup);
}
