/*
 * A client whose cluster is in etcd: waits in cox_open until every ps is registered,
 * follows ps that move, and registers where workers dial. All do nothing if the cluster
 * has lists of addresses. Threads: those of the caller; callbacks come on that of the
 * membership (cluster/membership.h).
 */
#ifndef COXI_COORDINATOR_DISCOVERY_H
#define COXI_COORDINATOR_DISCOVERY_H

#include "coordinator/coordinator.h"

/* Waits until all ps of c->site.cluster are known, until `end_ms` (coxi_now_ms).
 * COX_ETIMEDOUT: the text says which are missing. COX_EINVAL, COX_ENOMEM. */
int coxi_discovery_start(struct cox_coordinator *c, uint64_t end_ms);

/* Registers the door's address, once workers may come. COX_ENOMEM. */
int coxi_discovery_register(struct cox_coordinator *c);

/* Takes back what was registered. Before the recovery and the events end. */
void coxi_discovery_stop(struct cox_coordinator *c);

#endif
