/* The counts of cox_stats (coordinator/monitor/stats.h). Guarded by c->lock. */
#ifndef COXI_COORDINATOR_BASE_COUNTS_H
#define COXI_COORDINATOR_BASE_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/latency.h"
#include "coordinator/base/ids.h"
#include "coxswain/coxswain.h"

struct coxi_said;

/*
 * How long things took, for those who watch the client (monitor/exposed.h): of every
 * COXI_TIMED-th closure, because a look at the clock for each would show in the rate of
 * scheduling. Written by the loop alone, read by any thread.
 */
enum { COXI_TIMED = 16 };

struct coxi_run_times {
    bool watched;                 /* fixed before the loop runs */
    struct coxi_latency dispatch; /* from cox_schedule until it is given to a worker */
    struct coxi_latency closures; /* from cox_schedule until it is settled */
};

/* Now, for a closure that is timed; else 0. */
static inline uint64_t coxi_run_times_begin(const struct coxi_run_times *times,
                                            struct coxi_closure_id id)
{
    return times->watched && id.n % COXI_TIMED == 0 ? coxi_now_us() : 0;
}

/* A timed closure has come so far (loop). */
static inline void coxi_run_times_add(struct coxi_latency *latency,
                                      uint64_t scheduled_us)
{
    if (scheduled_us != 0) {
        coxi_latency_add_alone(latency, coxi_now_us() - scheduled_us);
    }
}

struct coxi_run_counts {
    struct cox_stats stats; /* done, failed, put_back, workers_lost, ... */
    struct coxi_said *said; /* the last answer of each ps */
    uint64_t n_asked;       /* how often the ps were asked */
    uint64_t total;         /* cox_log_total; 0: not known */
};

#endif
