/* The counts of cox_stats (coordinator/stats.h). Guarded by c->lock. */
#ifndef COXI_COORDINATOR_BASE_COUNTS_H
#define COXI_COORDINATOR_BASE_COUNTS_H

#include <stdint.h>

#include "coxswain/coxswain.h"

struct coxi_said;

struct coxi_run_counts {
    struct cox_stats stats; /* done, failed, put_back, workers_lost, ... */
    struct coxi_said *said; /* the last answer of each ps */
    uint64_t n_asked;       /* how often the ps were asked */
};

#endif
