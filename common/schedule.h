/*
 * Learning rates by step, as variable.h defines them (enum cox_schedule_kind). The step
 * comes with each commit. It follows from the closure's id (or the step function sets
 * it), so it is the same on every ps, for every attempt and in every replay. It does
 * not depend on a ps's counts.
 *
 *   linear, polynomial, exponential, step as Keras's PolynomialDecay (linear: power 1)
 *                                         and ExponentialDecay (step: staircase)
 *   cosine                                Loshchilov, Hutter: SGDR, ICLR 2017, one
 *                                         cycle; PyTorch's CosineAnnealingLR goes up
 *                                         again after `steps`; here it stays at its end
 *   warm-up                               Goyal et al.: Accurate, large minibatch SGD,
 *                                         2017 (2.2, from 0)
 */
#ifndef COXI_COMMON_SCHEDULE_H
#define COXI_COMMON_SCHEDULE_H

#include <stdint.h>

#include "schema/wire.h"

/* The rate at `step`, which counts from 0. Pure; any thread. */
float coxi_learning_rate(const struct coxi_schedule *schedule, float base,
                         uint64_t step);

#endif
