/* See profile.h. */
#include "coordinator/base/profile.h"

#include <stdlib.h>

/* What `from` has beyond `of`; the parts come from one clock, but are rounded. */
static uint32_t rest(uint32_t from, uint64_t of)
{
    return of < from ? from - (uint32_t)of : 0;
}

static void note(struct coxi_profile *profile, enum coxi_part part, uint32_t us)
{
    coxi_durations_note(&profile->parts[part], us);
}

void coxi_profile_note(struct coxi_profile *_Atomic *profile, uint32_t run_us,
                       const struct coxi_step_times *times, bool queue_is_empty)
{
    struct coxi_profile *of = atomic_load_explicit(profile, memory_order_relaxed);
    if (of == NULL) {
        of = calloc(1, sizeof(*of));
        if (of == NULL) {
            return;
        }
        atomic_store_explicit(profile, of, memory_order_release);
    }
    uint64_t waits_us = (uint64_t)times->data_us + times->pull_us + times->flush_us;
    note(of, COXI_PART_STEP, run_us);
    note(of, COXI_PART_DATA, times->data_us);
    note(of, COXI_PART_PULL, times->pull_us);
    note(of, COXI_PART_COMPUTE, rest(run_us, waits_us));
    note(of, COXI_PART_COMMIT, times->commit_us);
    coxi_count_more(&of->blocked_us, (uint64_t)times->flush_us + times->place_us);
    coxi_count_more(&of->idle_us, times->idle_us);
    coxi_count_more(&of->starved_us, queue_is_empty ? times->idle_us : 0);
}

struct coxi_part_sums coxi_profile_sums(const struct coxi_profile *profile)
{
    struct coxi_part_sums sums = {0};
    if (profile != NULL) {
        sums.n = atomic_load_explicit(&profile->parts[COXI_PART_STEP].n,
                                      memory_order_relaxed);
        for (size_t i = 0; i < COXI_PARTS; i++) {
            sums.part_us[i] =
                atomic_load_explicit(&profile->parts[i].sum_us, memory_order_relaxed);
        }
        sums.idle_us = atomic_load_explicit(&profile->idle_us, memory_order_relaxed);
        sums.starved_us =
            atomic_load_explicit(&profile->starved_us, memory_order_relaxed);
        sums.blocked_us =
            atomic_load_explicit(&profile->blocked_us, memory_order_relaxed);
    }
    return sums;
}
