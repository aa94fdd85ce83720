/*
 * Histograms of durations by powers of two of microseconds, which any thread adds to
 * without a lock. A zeroed one is empty. It has no pointers, so it may lie in memory that
 * processes share. An addition costs two atomic additions.
 */
#ifndef COXI_COMMON_LATENCY_H
#define COXI_COMMON_LATENCY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Bucket i has durations below 2^i us that are in no bucket before it; the last one has
 * all that are longer, 67 s and more. */
enum { COXI_LATENCY_BUCKETS = 28 };

struct coxi_latency {
    atomic_uint_least64_t counts[COXI_LATENCY_BUCKETS];
    atomic_uint_least64_t sum_us;
};

static inline size_t coxi_latency_bucket(uint64_t us)
{
    size_t bucket = us == 0 ? 0 : 64 - (size_t)__builtin_clzll(us);
    return bucket < COXI_LATENCY_BUCKETS ? bucket : COXI_LATENCY_BUCKETS - 1;
}

/* Adds to a counter that one thread alone writes. */
static inline void coxi_latency_bump(atomic_uint_least64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* The same as coxi_latency_add, for a histogram to which one thread at a time adds: no
 * atomic addition, so it costs next to nothing. */
static inline void coxi_latency_add_alone(struct coxi_latency *latency, uint64_t us)
{
    coxi_latency_bump(&latency->counts[coxi_latency_bucket(us)], 1);
    coxi_latency_bump(&latency->sum_us, us);
}

/* Adds a duration as if `n` had been as long. Any thread. */
static inline void coxi_latency_add_many(struct coxi_latency *latency, uint64_t us,
                                         uint64_t n)
{
    (void)atomic_fetch_add_explicit(&latency->counts[coxi_latency_bucket(us)], n,
                                    memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&latency->sum_us, n * us, memory_order_relaxed);
}

/* Any thread. */
static inline void coxi_latency_add(struct coxi_latency *latency, uint64_t us)
{
    coxi_latency_add_many(latency, us, 1);
}

/* Adds all that `from` has. */
static inline void coxi_latency_sum(struct coxi_latency *to,
                                    const struct coxi_latency *from)
{
    for (size_t i = 0; i < COXI_LATENCY_BUCKETS; i++) {
        coxi_latency_bump(&to->counts[i],
                          atomic_load_explicit(&from->counts[i], memory_order_relaxed));
    }
    coxi_latency_bump(&to->sum_us,
                      atomic_load_explicit(&from->sum_us, memory_order_relaxed));
}

#endif
