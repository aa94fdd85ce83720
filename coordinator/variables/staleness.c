/* How stale gradients were, added up over the ps, which count it (ps/staleness.h). */
#include "coxswain/staleness.h"

#include "common/error.h"
#include "common/histogram.h"
#include "common/structs.h"
#include "coordinator/coordinator.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/registry.h"

_Static_assert((int)COX_STALENESS_BUCKETS == (int)COXI_STALE_BUCKETS, "one histogram");

static void add(void *arg, const struct coxi_counts *counts)
{
    coxi_histogram_add(arg, &counts->stale);
}

/* What to ask the ps. */
static int question(struct cox_coordinator *c, const char *name, uint32_t only_worker,
                    struct coxi_count *ret)
{
    if (name != NULL && only_worker != 0) {
        return coxi_error(COX_EINVAL, "cox_staleness tells of a variable or of a "
                                      "worker, not of both together");
    }
    *ret = (struct coxi_count){.stale_of = COXI_STALE_ALL};
    if (only_worker != 0) {
        *ret = (struct coxi_count){.stale_of = COXI_STALE_WORKER,
                                   .index = only_worker - 1};
    }
    if (name == NULL) {
        return 0;
    }
    coxi_lock(&c->lock);
    const struct coxi_entry *entry = coxi_registry_find(c, name);
    if (entry != NULL) {
        *ret = (struct coxi_count){.stale_of = COXI_STALE_VARIABLE,
                                   .index = entry->description->id};
    }
    coxi_unlock(&c->lock);
    return entry != NULL ? 0
                         : coxi_error(COX_ENOENT, "there is no variable '%s'", name);
}

int cox_staleness(struct cox_coordinator *c, const char *name, uint32_t only_worker,
                  struct cox_staleness_counts *ret)
{
    struct coxi_count count;
    struct coxi_histogram all = {.sum = 0};
    if (c == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_staleness needs a coordinator and a place");
    }
    COXI_CALL(c);
    int r = coxi_struct_check(COXI_STRUCT_STALENESS_COUNTS, ret);
    r = r == 0 ? question(c, name, only_worker, &count) : r;
    r = r == 0 ? coxi_content_counts(c, &count, add, &all) : r;
    if (r != 0) {
        return r;
    }
    struct cox_staleness_counts counts = COX_STALENESS_COUNTS_INIT;
    counts.sum = all.sum;
    counts.max = all.max;
    counts.dropped = all.dropped;
    for (size_t i = 0; i < COX_STALENESS_BUCKETS; i++) {
        counts.counts[i] = all.counts[i];
        counts.gradients += all.counts[i];
    }
    return coxi_struct_return(ret, COXI_STRUCT_STALENESS_COUNTS, &counts);
}

uint64_t cox_staleness_percentile(const struct cox_staleness_counts *counts,
                                  double percent)
{
    uint64_t seen = 0;
    if (counts == NULL) {
        return 0;
    }
    double wanted = percent / 100 * (double)counts->gradients;
    for (size_t i = 0; i + 1 < COX_STALENESS_BUCKETS; i++) {
        seen += counts->counts[i];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t end = ((uint64_t)1 << i) - 1;
            return end < counts->max ? end : counts->max;
        }
    }
    return counts->max;
}
