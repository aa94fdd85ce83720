/*
 * How long a ps takes for requests of one kind, for those who watch it.
 *
 * Two looks at the clock are a large part of what a small request costs. So while a connection
 * has one every COXI_REQUESTS_FAST_NS or faster, one in COXI_REQUESTS_TIMED is timed and
 * counted for all of them; a prime, so that it is not always the same one of a step that has
 * several.
 *
 * Threads: several may count in one of these; then a few requests may be missing. Zeroed, it
 * is valid and empty.
 */
#ifndef COXI_PS_REQUEST_TIMES_H
#define COXI_PS_REQUEST_TIMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/latency.h"

enum { COXI_REQUESTS_TIMED = 13, COXI_REQUESTS_FAST_NS = 8000 };

struct coxi_request_times {
    struct coxi_latency took;
    atomic_uint untimed;            /* requests before the next one that is timed */
    atomic_uint stands_for;         /* how many that one stands for; 0: one */
    atomic_uint_least64_t begun_ns; /* when the last one that was timed came */
};

/* A request has come: true if it is timed. */
static inline bool coxi_request_is_timed(struct coxi_request_times *times)
{
    unsigned untimed = atomic_load_explicit(&times->untimed, memory_order_relaxed);
    if (untimed > 0) {
        atomic_store_explicit(&times->untimed, untimed - 1, memory_order_relaxed);
    }
    return untimed == 0;
}

/* Counts one that is timed, for all that it stands for, and chooses the next one. Both: ns of
 * the monotonic clock. */
void coxi_request_took(struct coxi_request_times *times, uint64_t begun_ns,
                       uint64_t ended_ns);

#endif
