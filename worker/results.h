/*
 * Kept results: results of steps that stay on this worker, for later steps that take
 * them as arguments (cox_call.keep). They are found by closure, and stay until the
 * client drops them or is gone.
 *
 * A step holds the results that it takes until it has returned; a message holds the
 * results that it sends.
 *
 * Bounded in bytes: results without room are sent to the client instead.
 *
 * Threads: any. Cost: O(1); nothing is copied.
 */
#ifndef COXI_WORKER_RESULTS_H
#define COXI_WORKER_RESULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "schema/wire.h"

enum { COXI_RESULTS_BUCKETS = 1024 };

/* The results of one attempt of a closure. Constant once they are kept. */
struct coxi_held {
    atomic_int refs; /* one for the table, one for each user */
    uint64_t closure;
    uint32_t attempt;
    struct coxi_buffer values; /* packed */
    struct coxi_held *next;    /* in its bucket */
};

struct coxi_results {
    size_t bytes_max;
    struct coxi_mutex lock; /* leaf */
    size_t bytes COXI_GUARDED_BY(lock);
    struct coxi_held *buckets[COXI_RESULTS_BUCKETS] COXI_GUARDED_BY(lock);
};

void coxi_results_init(struct coxi_results *results, size_t bytes_max);
void coxi_results_fini(struct coxi_results *results);

/* Moves the packed `values` into the table, in place of those of another attempt.
 * False: there is no room, or no memory, and `values` keeps its content. */
bool coxi_results_keep(struct coxi_results *results, uint64_t closure, uint32_t attempt,
                       struct coxi_buffer *values);

/* The kept results of a closure, for coxi_held_unref; NULL: none. */
struct coxi_held *coxi_results_get(struct coxi_results *results, uint64_t closure);
void coxi_held_unref(void *held);

/* The bytes of all kept results in this process, of all runs. */
size_t coxi_results_held(void);

/* Drops the results of that attempt, if they are kept. */
void coxi_results_drop(struct coxi_results *results, uint64_t closure,
                       uint32_t attempt);

/* The same for every attempt that is listed. */
void coxi_results_drop_all(struct coxi_results *results,
                           const struct coxi_recall *dropped);

#endif
