/* See optimizer.h. The loops are written for the compiler to vectorize. */
#include "ps/optimizer.h"

#include <math.h>

size_t coxi_optimizer_slots(const struct coxi_optimizer *optimizer)
{
    return optimizer->kind == COXI_OPTIMIZER_ADAGRAD ? 1 : 0;
}

float coxi_optimizer_slot_start(const struct coxi_optimizer *optimizer)
{
    return optimizer->kind == COXI_OPTIMIZER_ADAGRAD ? optimizer->initial_accumulator
                                                     : 0;
}

const char *coxi_optimizer_slot_name(const struct coxi_optimizer *optimizer)
{
    return optimizer->kind == COXI_OPTIMIZER_ADAGRAD ? "adagrad" : NULL;
}

static void apply_sgd(float rate, float *restrict w, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

static void apply_adagrad(float rate, float epsilon, float *restrict w,
                          float *restrict sum, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i] * g[i];
        float root = sqrtf(sum[i]) + epsilon;
        /* A gradient of 0 on a sum of 0 is no step, not 0 / 0. */
        w[i] -= root > 0 ? rate * g[i] / root : 0;
    }
}

void coxi_optimizer_apply(const struct coxi_optimizer *optimizer, float *w, float *slot,
                          const float *g, size_t n)
{
    switch ((enum coxi_optimizer_kind)optimizer->kind) {
    case COXI_OPTIMIZER_SGD:
        apply_sgd(optimizer->learning_rate, w, g, n);
        return;
    case COXI_OPTIMIZER_ADAGRAD:
        apply_adagrad(optimizer->learning_rate, optimizer->epsilon, w, slot, g, n);
        return;
    case COXI_OPTIMIZER_NONE:
    case COXI_OPTIMIZER_END:
        return;
    }
}
