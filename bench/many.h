/* Shared by case `variables` and its step. */
#ifndef COXI_BENCH_MANY_H
#define COXI_BENCH_MANY_H

#include <stdio.h>

enum { MANY = 65536, MANY_NAME = 64, MANY_LAYER = 64 };

/* The name of the i-th variable. */
static inline void many_name(int i, char ret[MANY_NAME])
{
    (void)snprintf(ret, MANY_NAME, "model/layer_%d/weight_%d", i / MANY_LAYER, i);
}

#endif
