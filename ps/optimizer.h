/*
 * Update rules, applied on the ps to n consecutive values `w` with gradient `g` and the
 * optimizer's own state `slot` (n values, or NULL where the rule has none).
 *
 *   SGD      w -= lr * g                           (Robbins, Monro 1951)
 *   Adagrad  s += g^2;  w -= lr * g / (sqrt(s) + epsilon)
 *            (Duchi, Hazan, Singer: Adaptive subgradient methods, JMLR 2011;
 *            s starts at initial_accumulator)
 *
 * Pure functions; the caller holds the lock of the row or block.
 */
#ifndef COXI_PS_OPTIMIZER_H
#define COXI_PS_OPTIMIZER_H

#include <stddef.h>

#include "common/layout.h"

/* Values of state for each value: 0 or 1. */
size_t coxi_optimizer_slots(const struct coxi_optimizer *optimizer);

/* What a new slot holds, and what it is called in checkpoints ("adagrad"), or NULL. */
float coxi_optimizer_slot_start(const struct coxi_optimizer *optimizer);
const char *coxi_optimizer_slot_name(const struct coxi_optimizer *optimizer);

/* The rule must not be COXI_OPTIMIZER_NONE. */
void coxi_optimizer_apply(const struct coxi_optimizer *optimizer, float *w, float *slot,
                          const float *g, size_t n);

#endif
