/*
 * Update rules, applied to values `w` with their gradient `g`: by a ps to what it holds,
 * by a worker to its local copies. coxswain.h has the formulas; schedule.h has learning
 * rates by step. Their sources:
 *
 *   SGD, momentum Robbins, Monro 1951; Polyak 1964. torch.optim.SGD, dampening 0: the
 *                 rate is outside the velocity (in Keras it is inside, which differs
 *                 where rates change)
 *   Nesterov      Sutskever et al., ICML 2013, as torch.optim.SGD(nesterov=True)
 *   Adagrad       Duchi, Hazan, Singer, JMLR 2011; torch.optim.Adagrad
 *   row-wise      the same with one sum for a row, of the mean of the row's squares:
 *                 Mudigere et al.: Software-hardware co-design ..., 2021 (4.1.4); as
 *                 fbgemm's EXACT_ROWWISE_ADAGRAD
 *   Adadelta      Zeiler 2012; torch.optim.Adadelta
 *   RMSProp       Tieleman, Hinton 2012; torch.optim.RMSprop, neither centered nor with
 *                 momentum; epsilon outside the root
 *   Adam          Kingma, Ba, ICLR 2015, algorithm 1 (epsilon outside the root, not
 *                 "epsilon hat"); torch.optim.Adam
 *   AdamW         Loshchilov, Hutter, ICLR 2019; torch.optim.AdamW: the decay is times
 *                 the rate
 *   FTRL-proximal McMahan et al., KDD 2013, algorithm 1; keras.optimizers.Ftrl:
 *                 its l2 is half of the paper's lambda 2
 *   delay compensation
 *                 Zheng et al.: Asynchronous stochastic gradient descent with delay
 *                 compensation, ICML 2017, with a constant lambda
 *   loss scale    Micikevicius et al.: Mixed precision training, ICLR 2018, 3.2; as
 *                 torch.amp.GradScaler with a backoff of 1 / growth, at least 1 (a
 *                 scale that is below 1 stays)
 *
 * Numbers that are not finite (only if the variable allows them): every rule passes a
 * NaN on to the value; no rule masks it. A sum or average of squares stops at FLT_MAX
 * instead of becoming infinite, because an infinite one would silently end all later
 * steps of its value. A gradient whose norm is not finite cannot be clipped by norm:
 * all of it becomes NaN.
 *
 * Pure functions; on a ps the caller holds the lock of the row or block. No
 * allocation.
 */
#ifndef COXI_COMMON_OPTIMIZER_H
#define COXI_COMMON_OPTIMIZER_H

#include <stddef.h>

#include "common/layout.h"

/* Numbers that an update takes from its optimizer, computed once for all its rows and
 * blocks. */
struct coxi_optimizer_step {
    const struct coxi_optimizer *optimizer;
    float rate;
    /* multiplies the gradient before all else: 1 / its loss scale */
    float unscale;
    /* multiplies it after that: less than 1 if its norm is clipped */
    float scale;
    float correction_m; /* Adam: 1 - beta1^t, 1 - beta2^t */
    float correction_v;
    /* 1 - beta1 (or 1 - rho), and 1 - beta2. Computed from the decimals for which the
     * floats stand: 0.001, not 1 - 0.999F. */
    float rest1;
    float rest2;
    double log_beta1;
    double log_beta2;
};

/*
 * Begins an update whose rate is the schedule's at `step`. `before`: earlier gradient
 * updates of this variable on this ps, or in this copy; Adam's t is one more, which is
 * right for a dense variable, and is set anew for each row of a table. `optimizer` is
 * borrowed; not COXI_OPTIMIZER_NONE.
 */
void coxi_optimizer_begin(const struct coxi_optimizer *optimizer, uint64_t step,
                          uint64_t before, struct coxi_optimizer_step *ret);

/* The gradients of the step are multiplied by `loss_scale` (0: by nothing): divides
 * them by it before all else. Does nothing for the gradient of a loss scale itself. */
void coxi_optimizer_unscale(struct coxi_optimizer_step *step, float loss_scale);

/*
 * Delay compensation: a gradient g that was computed from the values `base`, while the
 * values are w by now, becomes g + lambda g g (w - base); *ret may not overlap. The
 * gradient is multiplied by a loss scale, as coxi_optimizer_unscale says, and so is the
 * result.
 */
void coxi_optimizer_compensate(const struct coxi_optimizer_step *step, float lambda,
                               const float *w, const float *base, const float *g,
                               size_t n, float *ret);

/* Updates a table's row of n values and its state. The state is in the order of the
 * layout: slots of n values each, then states of one number for the whole row. */
void coxi_optimizer_row(const struct coxi_optimizer_step *step, float *w, float *state,
                        const float *g, size_t n);

/* ---- in parts, for dense variables: their rows and gradients may be larger than a
 * block */

/* The sum of squares of a part of a gradient, as it counts for the norm; 0 if the norm
 * is not clipped. */
double coxi_optimizer_norm(const struct coxi_optimizer_step *step, const float *g,
                           size_t n);

/* Clips the gradient by its norm; `sum`: coxi_optimizer_norm over all parts. */
void coxi_optimizer_clip(struct coxi_optimizer_step *step, double sum);

/* Updates n values and their places in each slot. For row-wise Adagrad, `step` is the
 * result of coxi_optimizer_row_step. */
void coxi_optimizer_apply(const struct coxi_optimizer_step *step, float *w,
                          float *const slots[COXI_SLOTS_MAX], const float *g, size_t n);

/* Row-wise Adagrad: the sum of squares of a part of a row. */
double coxi_optimizer_squares(const struct coxi_optimizer_step *step, const float *w,
                              const float *g, size_t n);

/* Row-wise Adagrad: the step to apply to a row of n values. `squares`: the sum over all
 * its parts, of which the row's accumulator grows. */
struct coxi_optimizer_step
coxi_optimizer_row_step(const struct coxi_optimizer_step *step, double squares,
                        size_t n, float *accumulator);

#endif
