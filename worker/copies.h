/*
 * What a worker keeps of dense variables that steps pull with COX_PULL_CACHED: the values of
 * each shard, the version that they have at least, and of which incarnation of its ps. They
 * belong to a run and end with it.
 *
 * Any thread.
 */
#ifndef COXI_WORKER_COPIES_H
#define COXI_WORKER_COPIES_H

#include <pthread.h>
#include <stdbool.h>

#include "common/layout.h"

struct coxi_copy;

struct coxi_copies {
    pthread_mutex_t lock; /* guards the rest; leaf */
    size_t bytes;
    size_t bytes_max;
    struct coxi_copy *first;
};

void coxi_copies_init(struct coxi_copies *copies, size_t bytes_max);
void coxi_copies_fini(struct coxi_copies *copies);

/* Room for a copy of `v` (borrowed for the life of all), none of which is there yet; NULL:
 * there is none, it would be beyond bytes_max. */
struct coxi_copy *coxi_copies_add(struct coxi_copies *copies,
                                  const struct coxi_variable *v);

/* The version that there is of shard `i`, 1: none of this incarnation. */
uint64_t coxi_copy_version(struct coxi_copy *copy, size_t i, uint64_t incarnation);

/* Copies shard `i` to `to`; false: what there is is of another incarnation by now. */
bool coxi_copy_read(struct coxi_copy *copy, size_t i, uint64_t incarnation, void *to);

/* Keeps shard `i`, of which `from` has `version` at least, unless there is a newer one. */
void coxi_copy_write(struct coxi_copy *copy, size_t i, uint64_t incarnation,
                     uint64_t version, const void *from);

#endif
