/*
 * Tasks of a data set by position: all of them wait to be given out again, each until it
 * is due; or all of them are under way.
 *
 * Invariant: a treap. By positions it is a search tree, and no task has a higher
 * priority (a hash of its position) than its parent; so its depth is O(log n), whatever
 * the order in which tasks come. A task that waits knows the earliest time at which one
 * in its subtree is due.
 *
 * Memory: none besides the hand-outs. Cost: O(log n). Threads: as tasks.h.
 */
#ifndef COXI_COORDINATOR_DATASETS_POSITIONS_H
#define COXI_COORDINATOR_DATASETS_POSITIONS_H

#include "coordinator/closures/handout.h"

/* No task that waits is due then. */
#define COXI_NEVER_DUE UINT64_MAX

/* Zeroed: empty. */
struct coxi_positions {
    struct coxi_handout *root;
    size_t n;
};

/* Adds a hand-out; removes one. If it waits, waiting.due_ms says until when. */
void coxi_positions_put(struct coxi_positions *positions, struct coxi_handout *handout);
void coxi_positions_drop(struct coxi_positions *positions,
                         struct coxi_handout *handout);

/* The lowest position that is at least `position`; NULL: there is none. */
struct coxi_handout *coxi_positions_from(const struct coxi_positions *positions,
                                         uint64_t position);

/* ---- only if they wait */

/* The lowest position that is due at `now_ms`; NULL: none is. */
struct coxi_handout *coxi_positions_first_due(const struct coxi_positions *positions,
                                              uint64_t now_ms);

/* When the next one below position `limit` is due; COXI_NEVER_DUE: there is none. */
uint64_t coxi_positions_next_due(const struct coxi_positions *positions,
                                 uint64_t limit);

#endif
