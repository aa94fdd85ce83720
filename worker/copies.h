/*
 * Copies of dense variables that steps pull with COX_PULL_CACHED, or in a synchronous
 * round. A copy has the values of each shard, a version (the values are at least that
 * new), the incarnation of the shard's ps, and what a step has seen that pulled them.
 * Copies belong to a run and end with it.
 *
 * A step that may see the same takes the values from the copy, without a word to the ps.
 * Other steps ask the ps, which sends no values if the version is still the newest.
 *
 * Any thread.
 */
#ifndef COXI_WORKER_COPIES_H
#define COXI_WORKER_COPIES_H

#include <stdbool.h>

#include "common/layout.h"
#include "common/sync.h"

struct coxi_copy;

/* What a step must see: coxi_round_head.after and .view. view 0: it asks the ps. */
struct coxi_sight {
    uint64_t after;
    uint64_t view;
};

struct coxi_copies {
    struct coxi_mutex lock; /* guards the rest; leaf */
    size_t bytes;
    size_t bytes_max;
    struct coxi_copy *first;
};

void coxi_copies_init(struct coxi_copies *copies, size_t bytes_max);
void coxi_copies_fini(struct coxi_copies *copies);

/* Makes an empty copy of `v` (borrowed for the life of all copies); NULL: it would
 * exceed bytes_max. */
struct coxi_copy *coxi_copies_add(struct coxi_copies *copies,
                                  const struct coxi_variable *v);

/* The version of shard `i` in the copy; 1: there is none of this incarnation. */
uint64_t coxi_copy_version(struct coxi_copy *copy, size_t i, uint64_t incarnation);

/*
 * Copies shard `i` to `to`, if a step with an equal sight has pulled it. Returns its
 * version, or 0: the ps must be asked.
 */
uint64_t coxi_copy_take(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                        const struct coxi_sight *sight, void *to);

/* Copies shard `i` to `to`, because the ps, asked by a step with this sight, has nothing
 * newer; false: the copy is of another incarnation by now. */
bool coxi_copy_read(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                    const struct coxi_sight *sight, void *to);

/* Keeps shard `i` with the values at `from`, which are of `version` or newer and which a
 * step with this sight has pulled, unless the copy is newer. */
void coxi_copy_write(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                     uint64_t version, const struct coxi_sight *sight,
                     const void *from);

#endif
