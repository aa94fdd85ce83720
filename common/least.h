/*
 * The least of what was measured lately, in the last second or two: how long a way is when
 * nothing waits on it. An average would take a busy peer for a distant one. A zeroed struct
 * has measured nothing. One thread at a time.
 */
#ifndef COXI_COMMON_LEAST_H
#define COXI_COMMON_LEAST_H

#include <stdint.h>

enum { COXI_LEAST_US = 1000000 }; /* a period: this one and the one before count */

struct coxi_least {
    uint64_t begun_us; /* this period */
    double now;        /* 0: nothing yet */
    double before;     /* the least of the period before; 0: nothing */
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

/* 0: not known. */
static inline double coxi_least(const struct coxi_least *least)
{
    return least->before > 0 && least->before < least->now ? least->before : least->now;
}

#endif
