/*
 * Leads an attempt of a closure through its life: runs its step, commits what the step has
 * collected to every ps that it touches, and has the end reported when all have acknowledged.
 *
 * Threads: a slot runs it; commits end on a ps client's thread.
 */
#ifndef COXI_WORKER_EXECUTE_H
#define COXI_WORKER_EXECUTE_H

#include "worker/attempt.h"
#include "worker/run.h"
#include "worker/running.h"

/*
 * Runs the closure `head` as `call` says on the calling thread. `running` shows it to
 * others: RUNNING on entry (or cancelled: then it is not started), IDLE on return. On
 * return the step has returned; commits may still be under way, and what the attempt has
 * put in line is not flushed. Returns how long the step ran, in microseconds.
 */
uint32_t coxi_execute_closure(struct coxi_run *run, struct coxi_running *running,
                              const struct coxi_closure_head *head,
                              const struct coxi_call *call);

/* Makes a resource on the calling thread, as coxi_execute_closure runs a closure, and answers
 * for it. */
void coxi_execute_resource(struct coxi_run *run, struct coxi_running *running,
                           struct coxi_kept *kept);

/* Reports an attempt that has not been started as cancelled. */
void coxi_execute_cancelled(struct coxi_run *run, uint64_t closure, uint32_t attempt);

#endif
