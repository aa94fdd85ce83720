/* The functions that coxswain/step.h calls: see step_api.c. The step's thread, a
 * slot. */
#ifndef COXI_WORKER_STEP_API_H
#define COXI_WORKER_STEP_API_H

#include "worker/attempt.h"

extern const struct cox_step_api coxi_step_api;

/* Before the step runs: puts results that this worker keeps among the arguments.
 * COX_ENOENT: one is not kept here. COX_EPROTO. */
int coxi_step_arguments(struct coxi_attempt *attempt);

/* After the step has returned 0: pushes what it has accumulated. After an error the
 * attempt is broken, and the step's text says why: COX_EINVAL (local steps were not
 * pushed), and those of updates. */
void coxi_step_returned(struct coxi_attempt *attempt);

/* The argument COXI_TASK_ARGUMENT, which steps do not see; NULL: there is none. */
const struct cox_value *coxi_step_task(struct coxi_attempt *attempt);

#endif
