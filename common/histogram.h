/* Histograms of small numbers by powers of two: 0; 1; 2 to 3; 4 to 7 ... Any thread;
 * pure. */
#ifndef COXI_COMMON_HISTOGRAM_H
#define COXI_COMMON_HISTOGRAM_H

#include <stddef.h>

#include "schema/wire.h"

/* The bucket of a number. The last one also has all larger numbers. */
static inline size_t coxi_histogram_bucket(uint64_t number)
{
    size_t bucket = number == 0 ? 0 : 64 - (size_t)__builtin_clzll(number);
    return bucket < COXI_STALE_BUCKETS ? bucket : COXI_STALE_BUCKETS - 1;
}

/* Adds the numbers of `from` to those of `to`. */
void coxi_histogram_add(struct coxi_histogram *to, const struct coxi_histogram *from);

#endif
