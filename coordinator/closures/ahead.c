/*
 * See ahead.h. Workers get enough closures to keep their slots busy while results and
 * the next closures travel, and no more, so that closures remain for other workers and
 * for second attempts.
 *
 * Threads: loop.
 */
#include "coordinator/closures/ahead.h"

#include "common/clock.h"

enum {
    AHEAD_US = 2000,     /* work that a worker should have at hand */
    AHEAD_MAX = 1024,    /* the most closures, even if they are very short */
    WAYS_MAX_US = 500000 /* longer round trips count as this */
};

void coxi_ways_note(struct coxi_ways *ways, const struct coxi_done *done)
{
    uint64_t now_us = coxi_now_us();
    uint64_t away_us = now_us - done->echo_us;
    if (done->echo_us != 0 && away_us < UINT32_MAX && away_us >= done->held_us) {
        coxi_least_note(&ways->client_us, now_us, (double)(away_us - done->held_us));
    }
    ways->ps_us = done->commit_us;
}

double coxi_ways_us(const struct coxi_ways *ways)
{
    return coxi_least(&ways->client_us) + ways->ps_us;
}

size_t coxi_ahead(double average_us, double ways_us)
{
    /* Round trips within a host are too short to matter; the factor covers errors of
     * measurement. */
    double far_us =
        AHEAD_US / 2.0 + 1.25 * (ways_us < WAYS_MAX_US ? ways_us : WAYS_MAX_US);
    double cover_us = far_us > AHEAD_US ? far_us : AHEAD_US;
    /* Not known yet: a few, so that the first results give an average. */
    double ahead = average_us > 0 ? cover_us / average_us : 4;
    return ahead >= AHEAD_MAX ? AHEAD_MAX : (size_t)ahead + 1;
}
