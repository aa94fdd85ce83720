/* See histogram.h. */
#include "common/histogram.h"

void coxi_histogram_add(struct coxi_histogram *to, const struct coxi_histogram *from)
{
    for (size_t i = 0; i < COXI_STALE_BUCKETS; i++) {
        to->counts[i] += from->counts[i];
    }
    to->sum += from->sum;
    to->max = from->max > to->max ? from->max : to->max;
    to->dropped += from->dropped;
}
