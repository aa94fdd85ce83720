/*
 * Counts durations by their length, from which quantiles are read: within 7 %, because
 * each power of two has eight buckets. A zeroed one is empty.
 *
 * Threads: one writer at a time; any number of readers, whose numbers may lack what is
 * being noted. Cost: no lock, 1 KiB.
 */
#ifndef COXI_COMMON_DURATIONS_H
#define COXI_COMMON_DURATIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/latency.h"

enum { COXI_DURATION_BUCKETS = 8 + 8 * 29 }; /* for all numbers of 32 bits */

struct coxi_durations {
    atomic_uint_least64_t n;
    atomic_uint_least64_t sum_us;
    atomic_uint_least32_t max_us;
    atomic_uint_least32_t counts[COXI_DURATION_BUCKETS];
};

/* Adds to a number that one thread at a time changes. */
static inline void coxi_count_more(atomic_uint_least64_t *number, uint64_t more)
{
    atomic_store_explicit(number,
                          atomic_load_explicit(number, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

void coxi_durations_note(struct coxi_durations *durations, uint32_t us);

/* Adds those of `from` to `to`, which no other thread uses. */
void coxi_durations_add(struct coxi_durations *to, const struct coxi_durations *from);

/* The same counts by powers of two, as *ret (zeroed) has them; no other thread uses
 * *ret. */
void coxi_durations_by_power(const struct coxi_durations *durations,
                             struct coxi_latency *ret);

/* The duration that `part` (0 to 1) of all do not exceed; 0 if there are none. */
uint32_t coxi_durations_quantile(const struct coxi_durations *durations, double part);

#endif
