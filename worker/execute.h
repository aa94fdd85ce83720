/*
 * Runs an attempt of a closure from begin to end: runs its step, commits the step's
 * updates to every ps that it touches, and reports the end when all ps have
 * acknowledged.
 *
 * Threads: a slot runs it; commits end on a ps client's thread.
 */
#ifndef COXI_WORKER_EXECUTE_H
#define COXI_WORKER_EXECUTE_H

#include "worker/attempt.h"
#include "worker/run.h"

/*
 * Runs the closure `head` with the arguments `call` on the calling thread. `running`
 * shows that to other threads: RUNNING on entry (or cancelled: then the step is not
 * started), IDLE on return. On return the step has returned. Its commits may still be
 * under way, and messages that the attempt has queued are not flushed. Returns the
 * step's run time in microseconds.
 */
uint32_t coxi_execute_closure(struct coxi_run *run, struct coxi_running *running,
                              const struct coxi_closure_head *head,
                              const struct coxi_call *call);

/* Makes a resource on the calling thread, as coxi_execute_closure runs a closure, and
 * tells the client how that ended. */
void coxi_execute_resource(struct coxi_run *run, struct coxi_running *running,
                           struct coxi_kept *kept);

/* Reports an attempt that has not been started as cancelled. */
void coxi_execute_cancelled(struct coxi_run *run, uint64_t closure, uint32_t attempt);

#endif
