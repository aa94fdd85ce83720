/*
 * How stale gradients are. A gradient is computed from values that the step has pulled.
 * Its staleness is the number of updates that the variable's part on this ps took
 * between that pull and the commit: updates that the values missed. Each part has a
 * version, which every update raises by one; a pull tells it, and the commit names it.
 *
 * Staleness is counted for each variable and for each worker. A commit that is a
 * duplicate, or fails, counts nowhere.
 *
 * Threads: any, without a lock. Cost of a gradient: two atomic additions for its
 * variable, and two for its worker. Memory: 280 bytes for each variable that takes
 * gradients, and for each worker.
 */
#ifndef COXI_PS_STALENESS_H
#define COXI_PS_STALENESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "schema/wire.h"

/* The version of a part before its first update. In a pull, 0 and 1 mean something
 * else. */
enum { COXI_VERSION_FIRST = 2 };

/* A histogram in which many threads count. Zeroed is valid and empty. */
struct coxi_stale {
    atomic_uint_least64_t counts[COXI_STALE_BUCKETS];
    atomic_uint_least64_t sum;
    atomic_uint_least64_t max;
    atomic_uint_least64_t dropped;
};

/* Counts a gradient; `dropped`: it was not applied. */
void coxi_stale_count(struct coxi_stale *stale, uint64_t staleness, bool dropped);

/* Adds what was counted so far to *to. */
void coxi_stale_add_to(const struct coxi_stale *stale, struct coxi_histogram *to);

/* ---- of each worker */

enum { COXI_STALE_WORKERS_MAX = 16384 };

struct coxi_stale_workers;

/* COX_ENOMEM. */
int coxi_stale_workers_new(struct coxi_stale_workers **ret);
void coxi_stale_workers_free(struct coxi_stale_workers *workers); /* takes NULL */

/* Where the gradients of a worker are counted. Those of no worker, of workers from
 * COXI_STALE_WORKERS_MAX on, and those for which there is no memory, count together. */
struct coxi_stale *coxi_stale_of(struct coxi_stale_workers *workers,
                                 struct coxi_maybe worker);

/* Adds the gradients of one worker to *to: none if it is not counted by itself. _all:
 * those of all. */
void coxi_stale_workers_add(struct coxi_stale_workers *workers, uint32_t worker,
                            struct coxi_histogram *to);
void coxi_stale_workers_add_all(struct coxi_stale_workers *workers,
                                struct coxi_histogram *to);

#endif
