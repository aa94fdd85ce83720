/* Local steps: see local.c. A slot's thread. */
#ifndef COXI_WORKER_LOCAL_H
#define COXI_WORKER_LOCAL_H

#include "worker/attempt.h"

/*
 * cox_local_pull, cox_local_rate, cox_local_step and cox_local_push, except that the
 * error text is not kept for the step. After an error, call coxi_attempt_break: the
 * copies may hold a part of what was asked for.
 */
int coxi_local_pull(struct coxi_attempt *attempt, const struct cox_pull *pulls,
                    size_t n_pulls);
int coxi_local_rate(struct coxi_attempt *attempt, struct cox_variable *variable,
                    float learning_rate);
int coxi_local_step(struct coxi_attempt *attempt, struct cox_variable *variable,
                    const struct cox_rows *rows, const float *gradient);
int coxi_local_push(struct coxi_attempt *attempt, float scale);

/* COX_EINVAL if the step has made local steps and not pushed them. */
int coxi_local_end(const struct coxi_attempt *attempt);

#endif
