/*
 * How long a ps takes for requests of one kind, for those who watch it.
 *
 * Two looks at the clock are a large part of what a small request costs. So while less than
 * COXI_REQUESTS_FAST_NS pass from one to the next, one in COXI_REQUESTS_TIMED is timed and
 * counted for all of them; a prime, so that it is not always the same one of a step that has
 * several.
 *
 * Threads: any. Zeroed, it is valid and empty.
 */
#ifndef COXI_PS_REQUEST_TIMES_H
#define COXI_PS_REQUEST_TIMES_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/latency.h"

enum { COXI_REQUESTS_TIMED = 13, COXI_REQUESTS_FAST_NS = 8000 };

struct coxi_request_times {
    struct coxi_latency took;
    atomic_uint untimed;            /* requests since the last one that was timed */
    atomic_uint every;              /* one in so many is timed; 0: each */
    atomic_uint_least64_t begun_ns; /* when the last one that was timed came */
};

/*
 * A request has come. 0: it is not timed; else for how many it stands, which no other one
 * stands for. If threads come at the same moment, a few may count twice or not at all.
 */
static inline unsigned coxi_request_stands_for(struct coxi_request_times *times)
{
    unsigned n = atomic_load_explicit(&times->untimed, memory_order_relaxed) + 1;
    if (n < atomic_load_explicit(&times->every, memory_order_relaxed)) {
        atomic_store_explicit(&times->untimed, n, memory_order_relaxed);
        return 0;
    }
    return n == 1
               ? 1
               : atomic_exchange_explicit(&times->untimed, 0, memory_order_relaxed) + 1;
}

/* Counts one that stands for `n`, and chooses how many are timed from now on. Both: ns of the
 * monotonic clock. */
void coxi_request_took(struct coxi_request_times *times, unsigned n, uint64_t begun_ns,
                       uint64_t ended_ns);

#endif
