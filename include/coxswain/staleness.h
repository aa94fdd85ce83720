/*
 * Staleness: how many updates the values have missed from which gradients were computed.
 * Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_STALENESS_H
#define COXSWAIN_STALENESS_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;

/*
 * A step pulls values, computes a gradient and pushes it; meanwhile other steps' updates
 * change the values. The staleness of a gradient is the number of updates that the ps
 * applied to the variable between the pull and the gradient. Updates are gradients, adds
 * and assigns, of steps and of the client; each push counts once. They count even if
 * they changed other rows: the staleness of a table's gradient is at least that of each
 * of its rows. If a step pulled a variable more than once, its last pull counts.
 *
 * A ps counts each gradient that it applies or drops, for its own part of the variable:
 * a push that goes to three ps counts three times. Gradients for variables that the step
 * has not pulled are not counted. A replayed closure counts where it is applied; nothing
 * counts twice. docs/modes.md has more, and what the counting costs.
 */
enum { COX_STALENESS_BUCKETS = 32 };

struct cox_staleness_counts {
    size_t size;
    uint64_t gradients; /* all of `counts` together */
    uint64_t sum;       /* of their staleness; the mean is sum / gradients */
    uint64_t max;       /* the highest staleness */
    uint64_t dropped;   /* gradients among them that were dropped (variable.h) */
    /* counts[0]: gradients with staleness 0; counts[i]: with 2^(i - 1) to 2^i - 1. The
     * last one also has everything above */
    uint64_t counts[COX_STALENESS_BUCKETS];
};
#define COX_STALENESS_COUNTS_INIT COX_INIT(cox_staleness_counts)

/*
 * Returns what all ps have counted: of the variable or table called `name` (NULL: of
 * all), or of one worker (1 + its index; 0: of all). At most one of the two may be
 * given. The counts begin at 0 when the client opens the run, and on a ps that was lost
 * when it comes back. Waits while a ps is being recovered. Any thread. COX_ENOENT: no
 * variable has that name; COX_EINVAL; COX_EPSLOST.
 */
COX_API int cox_staleness(struct cox_coordinator *c, const char *name,
                          uint32_t only_worker, struct cox_staleness_counts *ret);

/*
 * The staleness that `percent` of the gradients (0 to 100) do not exceed, rounded up to
 * the end of its bucket, but not above the highest. 0 if there are none. Any thread.
 */
COX_API uint64_t cox_staleness_percentile(const struct cox_staleness_counts *counts,
                                          double percent);

#ifdef __cplusplus
}
#endif
#endif
