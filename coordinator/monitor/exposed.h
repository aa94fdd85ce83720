/* What the client serves over HTTP (cox_options.http): how it is, and its metrics. */
#ifndef COXI_COORDINATOR_MONITOR_EXPOSED_H
#define COXI_COORDINATOR_MONITOR_EXPOSED_H

#include "coordinator/coordinator.h"
#include "http/openmetrics.h"

/* Begins to serve, if the options or $COX_HTTP say where. Before anything of the
 * coordinator runs. COX_EADDRESS, COX_ENOMEM. */
int coxi_exposed_start(struct cox_coordinator *c);

/* Tells the event that the client serves, and where, and tells `coxswain run --page`, if
 * that has started this program. After coxi_monitor_load, so that the
 * event follows what the history has already. Does nothing if nothing is served. */
void coxi_exposed_tell(struct cox_coordinator *c);

/* Writes the client's metrics, besides those of every process; until the end of
 * cox_open: none. The server's thread. */
void coxi_exposed_metrics(struct cox_coordinator *c, struct coxi_openmetrics *m);

/* There are new records for those who watch. Any thread. */
void coxi_exposed_wake(struct cox_coordinator *c);

/* Ends the trace that somebody has asked for, while the loop runs; no other begins. Takes at
 * most a few seconds. Does nothing if nothing is served. */
void coxi_exposed_end_trace(struct cox_coordinator *c);

/* Call before anything is freed of which the pages tell. Does nothing if nothing is
 * served. */
void coxi_exposed_stop(struct cox_coordinator *c);

#endif
