/* Gathers the trace of a run: see trace.c, coxswain/trace.h. */
#ifndef COXI_COORDINATOR_MONITOR_TRACE_H
#define COXI_COORDINATOR_MONITOR_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "coordinator/coordinator.h"

/* How long the end of a trace waits for a disk that takes nothing, in ms, which tests
 * shorten. */
extern atomic_uint coxi_tracing_silent_ms;

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
 * take one. _begin takes `fd`, also on failure. Any thread; block. */
int coxi_tracing_begin(struct cox_coordinator *c, int fd);
int coxi_tracing_end(struct cox_coordinator *c);

/* The run is over: from now on nobody waits for answers for long. */
void coxi_tracing_hurry(struct cox_coordinator *c);

/* True while there is a trace. Any thread; does not block. */
bool coxi_tracing_is_on(struct cox_coordinator *c);

/* Ends the trace, if there is one, while the loop still runs, and waits for its disk not
 * much beyond `until`. The error of cox_trace_stop is told as an event. */
void coxi_tracing_close(struct cox_coordinator *c, const struct timespec *until);

#endif
