/* The counts of cox_stats, and the last answers of the ps. */
#ifndef COXI_COORDINATOR_MONITOR_STATS_H
#define COXI_COORDINATOR_MONITOR_STATS_H

#include "coordinator/coordinator.h"

/* Call when the number of ps is known, before any is asked. COX_ENOMEM. */
int coxi_stats_new(struct cox_coordinator *c);

/* Call when no ps client is left that could answer. */
void coxi_stats_free(struct cox_coordinator *c);

/* What a ps has said last. */
struct coxi_ps_said {
    struct coxi_counters counters;
    uint64_t gradients; /* whose staleness was counted */
    uint64_t stale_sum; /* the sum of their staleness */
    bool is_fresh;      /* it has just answered */
    bool is_late;       /* it has had COXI_ANSWER_MS, and has not answered */
    /* how long it took to answer, or, without an answer, since when it has been silent */
    uint64_t lag_ms;
};

/* How long a ps may take to answer; cox_stats takes no longer. */
enum { COXI_ANSWER_MS = 1000 };

/*
 * Asks every ps for its counts, as cox_stats does, and waits for COXI_ANSWER_MS at most. `ret_ps`:
 * one for each ps, or NULL. coxi_stats_look does not wait once the client is being closed,
 * coxi_stats_last not beyond `until`.
 */
void coxi_stats_look(struct cox_coordinator *c, struct cox_stats *ret,
                     struct coxi_ps_said *ret_ps);
void coxi_stats_last(struct cox_coordinator *c, const struct timespec *until,
                     struct cox_stats *ret, struct coxi_ps_said *ret_ps);

#endif
