/*
 * What the steps of a run have returned that stays on this worker, for later steps that
 * take it as an argument (cox_call.keep): found by closure, until the client says that
 * nobody needs it any more, or is gone.
 *
 * A step that is handed one holds it until it has returned; so does the sending of one.
 *
 * Bounded in bytes: what finds no room is sent to the client instead.
 *
 * Threads: any. Cost: O(1); nothing is copied.
 */
#ifndef COXI_WORKER_RESULTS_H
#define COXI_WORKER_RESULTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

enum { COXI_RESULTS_BUCKETS = 1024 };

/* What one attempt of a closure has returned. Fixed once it is kept. */
struct coxi_held {
    atomic_int refs; /* the table, and whoever uses it */
    uint64_t closure;
    uint32_t attempt;
    struct coxi_buffer values; /* packed */
    struct coxi_held *next;    /* in its bucket */
};

struct coxi_results {
    size_t bytes_max;
    pthread_mutex_t lock; /* guards all below; leaf */
    size_t bytes;
    struct coxi_held *buckets[COXI_RESULTS_BUCKETS];
};

void coxi_results_init(struct coxi_results *results, size_t bytes_max);
void coxi_results_fini(struct coxi_results *results);

/*
 * Keeps the packed `values`, which are empty then, in place of those of another attempt.
 * False: there is no room for them, or no memory; they are as they were.
 */
bool coxi_results_keep(struct coxi_results *results, uint64_t closure, uint32_t attempt,
                       struct coxi_buffer *values);

/* What is kept of a closure, for coxi_held_unref; NULL: nothing. */
struct coxi_held *coxi_results_get(struct coxi_results *results, uint64_t closure);
void coxi_held_unref(void *held);

/* The bytes of all that is kept in this process, of whichever run. */
size_t coxi_results_held(void);

/* Nobody needs what that attempt has returned; no matter where it is not kept. */
void coxi_results_drop(struct coxi_results *results, uint64_t closure,
                       uint32_t attempt);

#endif
