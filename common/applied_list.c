/* See applied_list.h. */
#include "common/applied_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

int coxi_applied_list_copy(uint64_t watermark, const struct coxi_interval *intervals,
                           size_t n_intervals, const uint32_t *touched,
                           size_t n_touched, struct coxi_applied_list *ret)
{
    struct coxi_applied_list copy = {
        .watermark = watermark,
        .intervals = malloc(n_intervals * sizeof(*intervals) + 1),
        .n_intervals = n_intervals,
        .touched = malloc(n_touched * sizeof(*touched) + 1),
        .n_touched = n_touched,
    };
    if (copy.intervals == NULL || copy.touched == NULL) {
        coxi_applied_list_fini(&copy);
        return coxi_error_memory("an applied set");
    }
    if (n_intervals > 0) {
        memcpy(copy.intervals, intervals, n_intervals * sizeof(*intervals));
    }
    if (n_touched > 0) {
        memcpy(copy.touched, touched, n_touched * sizeof(*touched));
    }
    *ret = copy;
    return 0;
}

void coxi_applied_list_fini(struct coxi_applied_list *list)
{
    free(list->intervals);
    free(list->touched);
    *list = (struct coxi_applied_list){0};
}

/* Finds the interval of `segment` that contains the closure; NULL: there is none. */
static const struct coxi_interval *find(const struct coxi_applied_list *list,
                                        uint64_t closure, uint32_t segment)
{
    /* Find the last interval that does not begin after (segment, closure). */
    size_t from = 0;
    size_t to = list->n_intervals;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct coxi_interval *i = &list->intervals[middle];
        if (i->segment < segment || (i->segment == segment && i->first <= closure)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    const struct coxi_interval *found = from > 0 ? &list->intervals[from - 1] : NULL;
    return found != NULL && found->segment == segment && found->last >= closure ? found
                                                                                : NULL;
}

bool coxi_applied_list_has(const struct coxi_applied_list *list, uint64_t closure,
                           uint32_t segment)
{
    return closure <= list->watermark || find(list, closure, segment) != NULL;
}

bool coxi_applied_list_is_whole(const struct coxi_applied_list *list, uint64_t closure)
{
    const struct coxi_interval *only =
        closure > list->watermark ? find(list, closure, 0) : NULL;
    return closure <= list->watermark || (only != NULL && only->ends != 0);
}
