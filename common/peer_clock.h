/*
 * How far another process's monotonic clock is from ours, from messages there and back.
 * The shortest way of late counts, because it leaves the least room for error. Clocks that
 * may be the same, as those of one host are, count as the same.
 *
 * One thread at a time. A zeroed struct knows nothing: times are taken as they are.
 */
#ifndef COXI_COMMON_PEER_CLOCK_H
#define COXI_COMMON_PEER_CLOCK_H

#include <stdint.h>

enum { COXI_PEER_CLOCK_US = 10000000 }; /* for how long a measurement counts */

struct coxi_peer_clock {
    int64_t ahead_us; /* its clock minus ours */
    uint64_t way_us;  /* there and back, at that measurement */
    uint64_t at_us;   /* when; 0: never */
};

/* We sent something at sent_us and received its answer at received_us; the peer read
 * peer_us from its clock in between. */
static inline void coxi_peer_clock_note(struct coxi_peer_clock *clock, uint64_t sent_us,
                                        uint64_t peer_us, uint64_t received_us)
{
    uint64_t way_us = received_us - sent_us;
    if (clock->at_us != 0 && way_us > clock->way_us &&
        received_us - clock->at_us < COXI_PEER_CLOCK_US) {
        return;
    }
    int64_t ahead_us = (int64_t)(peer_us - (sent_us + way_us / 2));
    uint64_t apart_us = (uint64_t)(ahead_us < 0 ? -ahead_us : ahead_us);
    *clock = (struct coxi_peer_clock){apart_us <= way_us / 2 + 1 ? 0 : ahead_us, way_us,
                                      received_us};
}

/* A time of the peer's clock by ours. */
static inline uint64_t coxi_peer_clock_ours(const struct coxi_peer_clock *clock,
                                            uint64_t peer_us)
{
    return peer_us - (uint64_t)clock->ahead_us;
}

#endif
