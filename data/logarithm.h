/* The transform of counts: log(x + 1), computed in double. Any thread. */
#ifndef COXI_DATA_LOGARITHM_H
#define COXI_DATA_LOGARITHM_H

#include <math.h>

/* 0 if x is negative. */
static inline float coxi_log_of(double x)
{
    return x < 0 ? 0 : (float)log(x + 1);
}

#endif
