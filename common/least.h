/*
 * The least of the values measured in the last second or two: the time that a message
 * takes when it waits for nothing. An average would take a busy peer for a distant one.
 * A zeroed struct has measured nothing. One thread at a time.
 */
#ifndef COXI_COMMON_LEAST_H
#define COXI_COMMON_LEAST_H

#include <stdint.h>

/* length of a period; this period and the one before count */
enum { COXI_LEAST_US = 1000000 };

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
