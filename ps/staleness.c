/* See staleness.h. Workers are few and their indices low, so their histograms are made
 * in groups, when a worker of the group sends its first gradient. */
#include "ps/staleness.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/histogram.h"

enum { GROUP = 16, GROUPS = COXI_STALE_WORKERS_MAX / GROUP };

struct coxi_stale_workers {
    struct coxi_stale others;
    struct coxi_stale *_Atomic groups[GROUPS]; /* GROUP entries each; NULL: not made */
};

void coxi_stale_count(struct coxi_stale *stale, uint64_t staleness, bool dropped)
{
    atomic_fetch_add_explicit(&stale->counts[coxi_histogram_bucket(staleness)], 1,
                              memory_order_relaxed);
    if (staleness > 0) {
        atomic_fetch_add_explicit(&stale->sum, staleness, memory_order_relaxed);
    }
    uint64_t max = atomic_load_explicit(&stale->max, memory_order_relaxed);
    while (staleness > max &&
           !atomic_compare_exchange_weak(&stale->max, &max, staleness)) {
    }
    if (dropped) {
        atomic_fetch_add_explicit(&stale->dropped, 1, memory_order_relaxed);
    }
}

void coxi_stale_add_to(const struct coxi_stale *stale, struct coxi_histogram *to)
{
    struct coxi_histogram found = {
        .sum = atomic_load(&stale->sum),
        .max = atomic_load(&stale->max),
        .dropped = atomic_load(&stale->dropped),
    };
    for (size_t i = 0; i < COXI_STALE_BUCKETS; i++) {
        found.counts[i] = atomic_load(&stale->counts[i]);
    }
    coxi_histogram_add(to, &found);
}

int coxi_stale_workers_new(struct coxi_stale_workers **ret)
{
    struct coxi_stale_workers *workers = calloc(1, sizeof(*workers));
    if (workers == NULL) {
        return coxi_error_memory("the staleness of gradients");
    }
    *ret = workers;
    return 0;
}

void coxi_stale_workers_free(struct coxi_stale_workers *workers)
{
    for (size_t i = 0; workers != NULL && i < GROUPS; i++) {
        free(atomic_load(&workers->groups[i]));
    }
    free(workers);
}

/* Makes a group, unless another thread does; NULL: there is no memory. */
static struct coxi_stale *make_group(struct coxi_stale_workers *workers, size_t i)
{
    struct coxi_stale *there = NULL;
    struct coxi_stale *made = calloc(GROUP, sizeof(*made));
    if (made == NULL ||
        atomic_compare_exchange_strong(&workers->groups[i], &there, made)) {
        return made;
    }
    free(made);
    return there;
}

struct coxi_stale *coxi_stale_of(struct coxi_stale_workers *workers,
                                 struct coxi_maybe worker)
{
    if (!coxi_maybe_is_some(worker) ||
        coxi_maybe_index(worker) >= COXI_STALE_WORKERS_MAX) {
        return &workers->others;
    }
    size_t i = coxi_maybe_index(worker) / GROUP;
    struct coxi_stale *group = atomic_load(&workers->groups[i]);
    group = group == NULL ? make_group(workers, i) : group;
    return group != NULL ? &group[coxi_maybe_index(worker) % GROUP] : &workers->others;
}

void coxi_stale_workers_add(struct coxi_stale_workers *workers, uint32_t worker,
                            struct coxi_histogram *to)
{
    const struct coxi_stale *group = worker < COXI_STALE_WORKERS_MAX
                                         ? atomic_load(&workers->groups[worker / GROUP])
                                         : NULL;
    if (group != NULL) {
        coxi_stale_add_to(&group[worker % GROUP], to);
    }
}

void coxi_stale_workers_add_all(struct coxi_stale_workers *workers,
                                struct coxi_histogram *to)
{
    coxi_stale_add_to(&workers->others, to);
    for (uint32_t i = 0; i < COXI_STALE_WORKERS_MAX; i++) {
        coxi_stale_workers_add(workers, i, to);
    }
}
