/* Gathers the trace of a run: see trace.c, coxswain/trace.h. */
#ifndef COXI_COORDINATOR_MONITOR_TRACE_H
#define COXI_COORDINATOR_MONITOR_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "coordinator/coordinator.h"

/* Makes the state of traces, without one. COX_ENOMEM. _free: call it when the ps clients
 * are closed; does nothing if _new has failed. */
int coxi_tracing_new(struct cox_coordinator *c);
void coxi_tracing_free(struct cox_coordinator *c);

/* Starts the trace of cox_options.trace, or of $COX_TRACE, if one is set. COX_EIO,
 * COX_EBUSY. */
int coxi_tracing_open(struct cox_coordinator *c);

/* Asks ps and workers for their spans if there is a trace, and it is time. Loop. */
void coxi_tracing_tick(struct cox_coordinator *c);

/* A trace for somebody who has asked the client for it, as cox_trace_start and cox_trace_stop
 * take one. _begin takes `file`, unless it fails, and _end closes it. Any thread; block. */
int coxi_tracing_begin(struct cox_coordinator *c, FILE *file);
int coxi_tracing_end(struct cox_coordinator *c);

/* The run is over: from now on nobody waits for answers for long. */
void coxi_tracing_hurry(struct cox_coordinator *c);

/* True while there is a trace. Any thread; does not block. */
bool coxi_tracing_is_on(struct cox_coordinator *c);

/* Ends the trace, if there is one, while the loop still runs. The error of cox_trace_stop
 * is told as an event. */
void coxi_tracing_close(struct cox_coordinator *c);

#endif
