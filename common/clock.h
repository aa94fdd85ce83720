/* Monotonic time, deadlines, and the least of recently measured times. Any thread. */
#ifndef COXI_COMMON_CLOCK_H
#define COXI_COMMON_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Monotonic time since some point in the past. */
static inline uint64_t coxi_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t coxi_now_us(void)
{
    return coxi_now_ns() / 1000u;
}

static inline uint64_t coxi_now_ms(void)
{
    return coxi_now_ns() / 1000000u;
}

/* The duration in microseconds, in 32 bits; a longer duration becomes the maximum, 71
 * minutes and 34 s. */
static inline uint32_t coxi_short_us(uint64_t ns)
{
    return ns / 1000u < UINT32_MAX ? (uint32_t)(ns / 1000u) : UINT32_MAX;
}

/* Adds the microseconds from `begun_ns` until now, as far as they fit. */
static inline void coxi_add_since(uint32_t *us, uint64_t begun_ns)
{
    uint32_t more = coxi_short_us(coxi_now_ns() - begun_ns);
    *us = more < UINT32_MAX - *us ? *us + more : UINT32_MAX;
}

/*
 * The CLOCK_MONOTONIC moment `timeout_ms` from now, for condition variables made by
 * coxi_cond_init. A negative timeout is a deadline that is never reached.
 */
static inline struct timespec coxi_deadline(int timeout_ms)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    if (timeout_ms < 0) {
        t.tv_sec += (time_t)100 * 365 * 86400;
        return t;
    }
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static inline bool coxi_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* ---- the least of the times measured lately */

/* length of a period; this period and the one before count */
enum { COXI_LEAST_US = 1000000 };

/* The least of the values measured in the last second or two. It shows how long a
 * message takes if it waits for nothing; with an average, a busy peer would look like a
 * distant one. A zeroed struct has measured nothing. One thread at a time. */
struct coxi_least {
    uint64_t begun_us; /* when this period began */
    double now;        /* the least of this period; 0: nothing was measured */
    double before;     /* the least of the period before; 0: nothing was measured */
};

static inline void coxi_least_note(struct coxi_least *least, uint64_t now_us, double us)
{
    if (now_us - least->begun_us > COXI_LEAST_US) {
        least->before = least->now;
        least->now = us;
        least->begun_us = now_us;
    } else if (least->now == 0 || us < least->now) {
        least->now = us;
    }
}

/* The least value; 0: not known. */
static inline double coxi_least(const struct coxi_least *least)
{
    return least->before > 0 && least->before < least->now ? least->before : least->now;
}

#endif
