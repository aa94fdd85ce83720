/* See durations.h. Durations below 8 us have a bucket each. */
#include "common/durations.h"

#include <stddef.h>

enum { EXACT = 8, SHIFT = 3 };

static size_t bucket_of(uint32_t us)
{
    if (us < EXACT) {
        return us;
    }
    unsigned power = 31 - (unsigned)__builtin_clz(us);
    return EXACT * (power - SHIFT + 1) + ((us >> (power - SHIFT)) - EXACT);
}

/* The middle of a bucket. */
static uint32_t middle_of(size_t bucket)
{
    if (bucket < EXACT) {
        return (uint32_t)bucket;
    }
    unsigned shift = (unsigned)(bucket / EXACT - 1);
    uint32_t width = (uint32_t)1 << shift;
    return (uint32_t)(EXACT + bucket % EXACT) * width + width / 2;
}

void coxi_durations_note(struct coxi_durations *durations, uint32_t us)
{
    atomic_uint_least32_t *count = &durations->counts[bucket_of(us)];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    coxi_count_more(&durations->n, 1);
    coxi_count_more(&durations->sum_us, us);
    if (us > atomic_load_explicit(&durations->max_us, memory_order_relaxed)) {
        atomic_store_explicit(&durations->max_us, us, memory_order_relaxed);
    }
}

void coxi_durations_add(struct coxi_durations *to, const struct coxi_durations *from)
{
    for (size_t i = 0; i < COXI_DURATION_BUCKETS; i++) {
        to->counts[i] += atomic_load_explicit(&from->counts[i], memory_order_relaxed);
    }
    to->n += atomic_load_explicit(&from->n, memory_order_relaxed);
    to->sum_us += atomic_load_explicit(&from->sum_us, memory_order_relaxed);
    uint32_t max = atomic_load_explicit(&from->max_us, memory_order_relaxed);
    to->max_us = max > to->max_us ? max : to->max_us;
}

void coxi_durations_by_power(const struct coxi_durations *durations,
                             struct coxi_latency *ret)
{
    for (size_t i = 0; i < COXI_DURATION_BUCKETS; i++) {
        ret->counts[coxi_latency_bucket(middle_of(i))] +=
            atomic_load_explicit(&durations->counts[i], memory_order_relaxed);
    }
    ret->sum_us = atomic_load_explicit(&durations->sum_us, memory_order_relaxed);
}

uint32_t coxi_durations_quantile(const struct coxi_durations *durations, double part)
{
    uint64_t n = 0;
    for (size_t i = 0; i < COXI_DURATION_BUCKETS; i++) {
        n += atomic_load_explicit(&durations->counts[i], memory_order_relaxed);
    }
    uint32_t max = atomic_load_explicit(&durations->max_us, memory_order_relaxed);
    uint64_t seen = 0;
    for (size_t i = 0; n > 0 && i < COXI_DURATION_BUCKETS; i++) {
        seen += atomic_load_explicit(&durations->counts[i], memory_order_relaxed);
        if (seen > 0 && (double)seen >= part * (double)n) {
            return middle_of(i) < max ? middle_of(i) : max;
        }
    }
    return max;
}
