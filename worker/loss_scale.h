/* The loss scale of a step: see loss_scale.c. A slot's thread. */
#ifndef COXI_WORKER_LOSS_SCALE_H
#define COXI_WORKER_LOSS_SCALE_H

#include "worker/attempt.h"

/* cox_step_loss_scale. */
int coxi_loss_scale_ask(struct coxi_attempt *attempt, struct cox_variable *scale,
                        float *ret);

/*
 * Call when the step has succeeded: adds the update of its loss scale to the last
 * segment. COX_ENONFINITE: a gradient overflowed, and the step has no loss scale to
 * tell.
 */
int coxi_loss_scale_end(struct coxi_attempt *attempt);

#endif
