/*
 * The applied set of a ps as a list, for snapshots, checkpoints and restores.
 * ps/applied.h explains the set.
 *
 * Not thread-safe.
 */
#ifndef COXI_COMMON_APPLIED_LIST_H
#define COXI_COMMON_APPLIED_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

/* The closures above the watermark, by segment and closure. A zeroed list is empty. */
struct coxi_applied_list {
    uint64_t watermark;
    struct coxi_interval *intervals;
    size_t n_intervals;
    uint32_t *touched; /* the intervals refer to it */
    size_t n_touched;
};

/* Makes an owned list from the parts of a message. COX_ENOMEM. */
int coxi_applied_list_copy(uint64_t watermark, const struct coxi_interval *intervals,
                           size_t n_intervals, const uint32_t *touched,
                           size_t n_touched, struct coxi_applied_list *ret);
void coxi_applied_list_fini(struct coxi_applied_list *list);

/* True if the ps has applied segment `segment` of the closure, or all closures up to it
 * are settled. O(log n). */
bool coxi_applied_list_has(const struct coxi_applied_list *list, uint64_t closure,
                           uint32_t segment);

/* True if the ps has applied the whole closure: the list has the closure's only
 * segment, or all closures up to it are settled. */
bool coxi_applied_list_is_whole(const struct coxi_applied_list *list, uint64_t closure);

#endif
