/* See tally.h. One pass over the numbers of the segments, which reads each ps once. */
#include "coordinator/closures/tally.h"

#include <stdbool.h>
#include <string.h>

#include "net/message.h"

/* What is known after counting the segments up to some number. */
struct tally {
    size_t n_left; /* entries that are not counted yet */
    bool is_alike;
    bool is_missing; /* a ps lacks a segment that touches it, or no ps has it */
    bool has_last;
};

/* The segment `number` of this ps, and the ps that it touched; NULL: this ps does not
 * have it. */
static const struct coxi_voided_segment *take(struct coxi_told *told, uint32_t number,
                                              const uint32_t **ret_touched)
{
    if (told->n_taken == told->n_segments ||
        told->segments[told->n_taken].segment != number) {
        return NULL;
    }
    const struct coxi_voided_segment *segment = &told->segments[told->n_taken++];
    *ret_touched = told->touched + told->touched_at;
    told->touched_at += segment->touched_n;
    return segment;
}

static bool are_alike(const struct coxi_voided_segment *a, const uint32_t *a_touched,
                      const struct coxi_voided_segment *b, const uint32_t *b_touched)
{
    return a->last == b->last && a->touched_n == b->touched_n &&
           memcmp(a_touched, b_touched, a->touched_n * sizeof(*a_touched)) == 0;
}

static void count_segment(struct coxi_told *told, uint32_t n_ps, uint32_t number,
                          struct tally *tally)
{
    const struct coxi_voided_segment *first = NULL;
    const uint32_t *first_touched = NULL;
    uint32_t at = 0; /* place of the first ps in its list that is not below p */
    uint32_t n_having = 0;
    for (uint32_t p = 0; p < n_ps; p++) {
        const uint32_t *touched = NULL;
        const struct coxi_voided_segment *segment = take(&told[p], number, &touched);
        if (segment == NULL) {
            continue;
        }
        if (first == NULL) {
            first = segment;
            first_touched = touched;
        }
        while (at < first->touched_n && first_touched[at] < p) {
            at++;
        }
        tally->is_alike &= are_alike(segment, touched, first, first_touched) &&
                           at < first->touched_n && first_touched[at] == p;
        tally->n_left--;
        n_having++;
    }
    tally->is_alike &=
        first == NULL || !tally->has_last; /* no segment follows the last */
    tally->is_missing |= first == NULL || n_having < first->touched_n;
    tally->has_last |= first != NULL && first->last != 0;
}

enum coxi_tally coxi_tally(struct coxi_told *told, uint32_t n_ps)
{
    struct tally tally = {.is_alike = true};
    for (uint32_t p = 0; p < n_ps; p++) {
        tally.n_left += told[p].n_segments;
    }
    if (tally.n_left == 0) {
        return COXI_TALLY_NOTHING;
    }
    for (uint32_t number = 0; tally.n_left > 0 && number < COXI_SEGMENTS_MAX;
         number++) {
        count_segment(told, n_ps, number, &tally);
    }
    if (!tally.is_alike || tally.n_left > 0) {
        return COXI_TALLY_UNLIKE;
    }
    return tally.has_last && !tally.is_missing ? COXI_TALLY_ALL : COXI_TALLY_PART;
}
