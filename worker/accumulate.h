/*
 * Gradients that a step accumulates before they are pushed: see accumulate.c. A slot's
 * thread.
 */
#ifndef COXI_WORKER_ACCUMULATE_H
#define COXI_WORKER_ACCUMULATE_H

#include "worker/attempt.h"

/* cox_step_accumulate, except that the error text is not kept for the step. After an
 * error, call coxi_attempt_break. */
int coxi_accumulate(struct coxi_attempt *attempt, struct cox_variable *variable,
                    const struct cox_rows *rows, const float *gradient);

/* cox_step_push_accumulated, in the same way. */
int coxi_accumulate_push(struct coxi_attempt *attempt, float scale);

/* True if the step has accumulated gradients that are not pushed. */
bool coxi_accumulate_any(const struct coxi_attempt *attempt);

#endif
