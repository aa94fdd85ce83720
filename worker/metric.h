/* A step's additions to metrics: see metric.c. A slot's thread. */
#ifndef COXI_WORKER_METRIC_H
#define COXI_WORKER_METRIC_H

#include "worker/attempt.h"

/* cox_step_metric_add and cox_step_metric_auc. */
int coxi_metric_push(struct coxi_attempt *attempt, const struct coxi_variable *v,
                     double value, double weight);
int coxi_metric_push_auc(struct coxi_attempt *attempt, const struct coxi_variable *v,
                         const float *labels, const float *scores, size_t n);

/* Begins a new update for later additions to `v`, after all updates that were
 * collected. */
void coxi_metric_end(struct coxi_attempt *attempt, const struct coxi_variable *v);

#endif
