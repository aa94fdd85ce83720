/* Updates of a step: see push.c. A slot's thread. */
#ifndef COXI_WORKER_PUSH_H
#define COXI_WORKER_PUSH_H

#include "worker/attempt.h"

/*
 * Collects an update. If it fails, a part of the update may be collected: call
 * coxi_attempt_break. The gradient of a loss scale is kept until the step has returned.
 */
int coxi_push(struct coxi_attempt *attempt, struct cox_variable *variable, uint32_t op,
              const struct cox_rows *rows, const void *values);

/* COX_EINVAL, COX_ELIMIT unless variable `v` takes the update. */
int coxi_push_check(const struct coxi_variable *v, uint32_t op,
                    const struct cox_rows *rows, const void *values);

/* Like coxi_push, but checks nothing, and collects the gradient of a loss scale at
 * once. */
int coxi_push_now(struct coxi_attempt *attempt, const struct cox_variable *variable,
                  uint32_t op, const struct cox_rows *rows, const void *values);

/* The same for the sum of the gradients of several batches: it is as stale as the first
 * of them since coxi_versions_renew. */
int coxi_push_merged(struct coxi_attempt *attempt, const struct cox_variable *variable,
                     const struct cox_rows *rows, const float *gradient);

#endif
