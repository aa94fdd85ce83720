/* Works out how much of a closure is applied, from the answers of all ps
 * (docs/exactly-once.md, rules 6 and 9). Pure; any thread. */
#ifndef COXI_COORDINATOR_CLOSURES_TALLY_H
#define COXI_COORDINATOR_CLOSURES_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

/* The answer of one ps: the segments it has applied, by number, and the ps that each of
 * them touched, one after the other. */
struct coxi_told {
    struct coxi_voided_segment *segments;
    size_t n_segments;
    uint32_t *touched;
    size_t n_taken; /* used by coxi_tally: its progress, 0 at first */
    size_t touched_at;
};

enum coxi_tally {
    COXI_TALLY_NOTHING,
    COXI_TALLY_PART,
    COXI_TALLY_ALL,    /* each segment to the last, on every ps that it touched */
    COXI_TALLY_UNLIKE, /* the segments cannot come from attempts that are alike */
};

/* `told` is by ps. O(segments * ps). */
enum coxi_tally coxi_tally(struct coxi_told *told, uint32_t n_ps);

#endif
