/*
 * The applied set of a ps as a list: as snapshots, checkpoints and restores have it. What
 * it means: ps/applied.h.
 *
 * Not thread-safe.
 */
#ifndef COXI_COMMON_APPLIED_LIST_H
#define COXI_COMMON_APPLIED_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

/* What is above the watermark, by segment and closure. A zeroed one is empty. */
struct coxi_applied_list {
    uint64_t watermark;
    struct coxi_interval *intervals;
    size_t n_intervals;
    uint32_t *touched; /* what the intervals refer to */
    size_t n_touched;
};

/* An owned list of what a message has. COX_ENOMEM. */
int coxi_applied_list_copy(uint64_t watermark, const struct coxi_interval *intervals,
                           size_t n_intervals, const uint32_t *touched,
                           size_t n_touched, struct coxi_applied_list *ret);
void coxi_applied_list_fini(struct coxi_applied_list *list);

/* True where the ps has applied segment `segment` of the closure, or everything up to it
 * is settled. O(log n). */
bool coxi_applied_list_has(const struct coxi_applied_list *list, uint64_t closure,
                           uint32_t segment);

/* True where it has the closure's only segment, or everything up to it is settled: then
 * nothing of the closure is missing. */
bool coxi_applied_list_is_whole(const struct coxi_applied_list *list, uint64_t closure);

#endif
