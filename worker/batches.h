/*
 * The records of a task of a data set, as its step gets them (cox_step_batch). The
 * closure's argument COXI_TASK_ARGUMENT says which file and which part of it
 * (data/task.h); a worker keeps nothing of a data set from closure to closure.
 *
 * Threads: the step's (a slot); coxi_batches_cancel: any.
 */
#ifndef COXI_WORKER_BATCHES_H
#define COXI_WORKER_BATCHES_H

#include "worker/attempt.h"

/*
 * The next batch; the first call opens the file. COX_EEOF: none is left. COX_EINVAL: the
 * closure has no task. COX_ECANCELLED, also while it waits. Errors of coxi_reader_open
 * and _next: the file cannot be read, was changed, or is malformed; the attempt cannot succeed any more,
 * and ends with that code.
 */
int coxi_batches_next(struct coxi_attempt *attempt, struct cox_batch *ret);

/* What the slot runs is cancelled: its step waits no longer for records. Call it after
 * the change of the state. */
void coxi_batches_cancel(struct coxi_running *running);

/* The step has returned: closes the file. If the step has asked for batches, adds the
 * result COXI_TASK_RESULT; if the file has changed meanwhile, the attempt cannot
 * succeed (COX_ECONFLICT). COX_ENOMEM. */
int coxi_batches_end(struct coxi_attempt *attempt);

#endif
