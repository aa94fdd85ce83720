/* The trace that a program of this host asks for over HTTP, as `coxswain trace` does. */
#ifndef COXI_COORDINATOR_MONITOR_TRACE_ASKED_H
#define COXI_COORDINATOR_MONITOR_TRACE_ASKED_H

#include "coordinator/coordinator.h"
#include "http/http.h"

struct coxi_trace_asked;

/* COX_ENOMEM. */
int coxi_trace_asked_new(struct cox_coordinator *c, struct coxi_trace_asked **ret);

/* The route, valid until _free. */
struct coxi_http_route coxi_trace_asked_route(struct coxi_trace_asked *asked);

/* Ends the trace that is under way, while the loop still runs; from now on none begins. Waits
 * for at most a second until its reader has all of it. Takes NULL. */
void coxi_trace_asked_stop(struct coxi_trace_asked *asked);

/* Call it when nobody has the route any more. Takes NULL. */
void coxi_trace_asked_free(struct coxi_trace_asked *asked);

#endif
