/* The counts of cox_stats, and the last answers of the ps. */
#ifndef COXI_COORDINATOR_STATS_H
#define COXI_COORDINATOR_STATS_H

#include "coordinator/coordinator.h"

/* Call when the number of ps is known, before any is asked. COX_ENOMEM. */
int coxi_stats_new(struct cox_coordinator *c);

/* Call when no ps client is left that could answer. */
void coxi_stats_free(struct cox_coordinator *c);

#endif
