/* What case `variables` and its step agree on. */
#ifndef COXI_BENCH_MANY_H
#define COXI_BENCH_MANY_H

#include <stdio.h>

enum { MANY = 65536, MANY_NAME = 64, MANY_LAYER = 64 };

/* The i-th variable's name. */
static inline void many_name(int i, char ret[MANY_NAME])
{
    (void)snprintf(ret, MANY_NAME, "model/layer_%d/weight_%d", i / MANY_LAYER, i);
}

#endif
