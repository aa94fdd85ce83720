/* What a step lets others see of training (coxswain/watch.h). Part of step.h. */
#ifndef COXSWAIN_STEP_WATCH_H
#define COXSWAIN_STEP_WATCH_H

#include "coxswain/step_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Logs a number under a name, for instance the loss of this step. Like cox_log_scalar,
 * with the closure's id as its step (cox_step_closure). It counts if the step succeeds,
 * and once, however often the step runs: the attempt counts with which the closure ends.
 * A step that only runs again for a parameter server that has come back logs nothing. If a
 * worker dies after its closure was applied and before the client heard of it, what that
 * step has logged is lost.
 *
 * COX_EINVAL: the name is empty or longer than 127 bytes, or the step makes a resource.
 * COX_ELIMIT: a step logs at most 256 scalars. After an error the step may go on.
 */
static inline int cox_step_log_scalar(struct cox_step *step, const char *name,
                                      double value)
{
    return step->api->log_scalar(step, name, value);
}

#ifdef __cplusplus
}
#endif
#endif
