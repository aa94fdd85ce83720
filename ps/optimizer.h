/*
 * Update rules, applied on the ps to values `w` with their gradient `g` (coxswain.h says
 * them all; rates by step are schedule.h's). What each follows:
 *
 *   SGD, momentum   Robbins, Monro 1951; Polyak 1964. torch.optim.SGD, dampening 0: the
 *                   rate is outside the velocity (in Keras it is inside, which differs
 *                   where rates change)
 *   Nesterov        Sutskever et al., ICML 2013, as torch.optim.SGD(nesterov=True)
 *   Adagrad         Duchi, Hazan, Singer, JMLR 2011; torch.optim.Adagrad
 *   row-wise        the same with one sum for a row, of the mean of the row's squares:
 *                   Mudigere et al.: Software-hardware co-design ..., 2021 (4.1.4); as
 *                   fbgemm's EXACT_ROWWISE_ADAGRAD
 *   Adadelta        Zeiler 2012; torch.optim.Adadelta
 *   RMSProp         Tieleman, Hinton 2012; torch.optim.RMSprop, neither centered nor with
 *                   momentum; epsilon outside the root
 *   Adam            Kingma, Ba, ICLR 2015, algorithm 1 (epsilon outside the root, not
 *                   "epsilon hat"); torch.optim.Adam
 *   AdamW           Loshchilov, Hutter, ICLR 2019; torch.optim.AdamW: the decay is times
 *                   the rate
 *   FTRL-proximal   McMahan et al., KDD 2013, algorithm 1; keras.optimizers.Ftrl, whose l2
 *                   is half of the paper's lambda 2
 *   loss scale      Micikevicius et al.: Mixed precision training, ICLR 2018, 3.2; as
 *                   torch.amp.GradScaler with a backoff of 1 / growth, at least 1 (one that
 *                   is below 1 stays)
 *
 * Numbers that are not finite (only where the variable allows them): a NaN goes through every
 * rule into the value, no rule masks it. A sum or average of squares stops at FLT_MAX instead
 * of becoming infinite, because an infinite one would end all later steps of its value in
 * silence. A gradient whose norm is not finite cannot be clipped by norm: all of it is NaN then.
 *
 * Pure functions; the caller holds the lock of the row or block. No allocation.
 */
#ifndef COXI_PS_OPTIMIZER_H
#define COXI_PS_OPTIMIZER_H

#include <stddef.h>

#include "common/layout.h"

/* What an update needs of its optimizer, found once for all its rows and blocks. */
struct coxi_optimizer_step {
    const struct coxi_optimizer *optimizer;
    float rate;
    float unscale;      /* of the gradient, before all else: 1 / its loss scale */
    float scale;        /* then: less than 1 where its norm is clipped */
    float correction_m; /* Adam: 1 - beta1^t, 1 - beta2^t */
    float correction_v;
    float
        rest1; /* 1 - beta1, or 1 - rho; and 1 - beta2: from the decimals that were meant */
    float rest2;
    double log_beta1;
    double log_beta2;
};

/*
 * An update whose rate is the schedule's at `step`, and that comes after `before` others of this
 * variable here (Adam's t is one more: right for a dense variable, set anew for each row of a
 * table). `optimizer` is borrowed; not COXI_OPTIMIZER_NONE.
 */
void coxi_optimizer_begin(const struct coxi_optimizer *optimizer, uint64_t step,
                          uint64_t before, struct coxi_optimizer_step *ret);

/* The gradients of the step are multiplied by `loss_scale` (0: by nothing), which is taken out of
 * them first. What a loss scale itself is told is not. */
void coxi_optimizer_unscale(struct coxi_optimizer_step *step, float loss_scale);

/* A table's row of n values and its state, in the order of the layout: slots of n values,
 * then what it has one of. */
void coxi_optimizer_row(const struct coxi_optimizer_step *step, float *w, float *state,
                        const float *g, size_t n);

/* ---- in parts: dense variables, whose rows and gradients are larger than a block */

/* The sum of squares of a part of a gradient, as they count for its norm (0 where that is
 * not clipped); with that of all of it, clips. */
double coxi_optimizer_norm(const struct coxi_optimizer_step *step, const float *g,
                           size_t n);
void coxi_optimizer_clip(struct coxi_optimizer_step *step, double sum);

/* n values and their places in each slot. Of row-wise Adagrad, the step is that of
 * coxi_optimizer_row_step. */
void coxi_optimizer_apply(const struct coxi_optimizer_step *step, float *w,
                          float *const slots[COXI_SLOTS_MAX], const float *g, size_t n);

/* Row-wise Adagrad: the sum of squares of a part of a row, as they count; with that of all
 * its n values and its accumulator, which grows, the step to apply. */
double coxi_optimizer_squares(const struct coxi_optimizer_step *step, const float *w,
                              const float *g, size_t n);
struct coxi_optimizer_step
coxi_optimizer_row_step(const struct coxi_optimizer_step *step, double squares,
                        size_t n, float *accumulator);

#endif
