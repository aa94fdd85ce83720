/* What a step can do in a round (coxswain/round.h). Part of step.h. */
#ifndef COXSWAIN_STEP_ROUND_H
#define COXSWAIN_STEP_ROUND_H

#include "coxswain/step_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets how much this closure counts in its round (cox_round_schedule), for instance by the number of
 * its examples. The gradients of the closures are added up, each times its weight; for
 * a mean, the sum is divided by the sum of the weights; if that is 0, the mean is 0.
 * Without this call: 1. It means nothing for a closure that is in no round. COX_EINVAL: it is negative or not finite.
 */
static inline int cox_step_weight(struct cox_step *step, double weight)
{
    return step->api->weight(step, weight);
}

#ifdef __cplusplus
}
#endif
#endif
