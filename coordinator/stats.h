/* What cox_stats tells, and what it remembers of what the ps have said. */
#ifndef COXI_COORDINATOR_STATS_H
#define COXI_COORDINATOR_STATS_H

#include "coordinator/coordinator.h"

/* Once it is known how many ps there are, before any is asked. COX_ENOMEM. */
int coxi_stats_new(struct cox_coordinator *c);

/* When no ps client is left that could answer. */
void coxi_stats_free(struct cox_coordinator *c);

#endif
