/* Histograms (common/histogram.h) in tests. */
#ifndef COXI_TESTS_COMMON_HISTOGRAM_H
#define COXI_TESTS_COMMON_HISTOGRAM_H

#include "schema/wire.h"

/* How many numbers a histogram has. */
static inline uint64_t histogram_total(const struct coxi_histogram *histogram)
{
    uint64_t n = 0;
    for (size_t i = 0; i < COXI_STALE_BUCKETS; i++) {
        n += histogram->counts[i];
    }
    return n;
}

#endif
