/*
 * See optimizer.h. The loops over values are written for the compiler to vectorize: no
 * branch, no call, and no division that is not made for every value.
 *
 * A gradient that is clipped or decayed is adjusted in a buffer on the stack first,
 * PIECE values at a time; otherwise the rules read it in place.
 */
#include "common/optimizer.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "common/floats.h"
#include "common/schedule.h"

enum { PIECE = 256 };

/* ---- numbers that are the same for all values of an update */

static bool is_adam(const struct coxi_optimizer *o)
{
    return o->kind == COXI_OPTIMIZER_ADAM || o->kind == COXI_OPTIMIZER_ADAMW;
}

/* 1 - exp(x) for x <= 0. Below -20 the result is 1 in a float, and needs no
 * computation. */
static float correction(double x)
{
    return x < -20 ? 1 : (float)-expm1(x);
}

static void set_t(struct coxi_optimizer_step *step, double t)
{
    step->correction_m = correction(t * step->log_beta1);
    step->correction_v = correction(t * step->log_beta2);
}

static bool has_schedule(const struct coxi_optimizer *optimizer)
{
    return optimizer->schedule.kind != COXI_SCHEDULE_CONSTANT ||
           optimizer->schedule.warmup_steps > 0;
}

void coxi_optimizer_begin(const struct coxi_optimizer *optimizer, uint64_t step,
                          uint64_t before, struct coxi_optimizer_step *ret)
{
    *ret = (struct coxi_optimizer_step){
        .optimizer = optimizer,
        .rate = has_schedule(optimizer)
                    ? coxi_learning_rate(&optimizer->schedule, optimizer->learning_rate,
                                         step)
                    : optimizer->learning_rate,
        .unscale = 1,
        .scale = 1,
    };
    if (is_adam(optimizer)) {
        double beta1 = coxi_floats_decimal(optimizer->beta1);
        double beta2 = coxi_floats_decimal(optimizer->beta2);
        ret->rest1 = (float)(1 - beta1);
        ret->rest2 = (float)(1 - beta2);
        ret->log_beta1 = log(beta1);
        ret->log_beta2 = log(beta2);
        set_t(ret, (double)before + 1);
    } else if (optimizer->kind == COXI_OPTIMIZER_RMSPROP ||
               optimizer->kind == COXI_OPTIMIZER_ADADELTA) {
        ret->rest1 = (float)(1 - coxi_floats_decimal(optimizer->rho));
    }
}

void coxi_optimizer_unscale(struct coxi_optimizer_step *step, float loss_scale)
{
    bool scaled = loss_scale != 0 && step->optimizer->kind != COXI_OPTIMIZER_LOSS_SCALE;
    step->unscale = scaled ? 1 / loss_scale : 1;
}

void coxi_optimizer_compensate(const struct coxi_optimizer_step *step, float lambda,
                               const float *restrict w, const float *restrict base,
                               const float *restrict g, size_t n, float *restrict ret)
{
    /* w - base comes before the second g, because a square of g may be infinite */
    float factor = lambda * step->unscale;
    for (size_t i = 0; i < n; i++) {
        ret[i] = g[i] + g[i] * (factor * g[i] * (w[i] - base[i]));
    }
}

/* ---- gradients as the rule sees them */

static float clip(float g, float most)
{
    g = g > most ? most : g;
    return g < -most ? -most : g;
}

/* The bound of clip_value, or infinity for none: FLT_MAX would bound infinities. */
static float clip_of(const struct coxi_optimizer *o)
{
    return o->clip_value > 0 ? o->clip_value : INFINITY;
}

/* The weight decay that is added to gradients. */
static float decay_of(const struct coxi_optimizer *o)
{
    return o->kind == COXI_OPTIMIZER_ADAMW ? 0 : o->weight_decay;
}

static bool is_plain(const struct coxi_optimizer_step *step)
{
    const struct coxi_optimizer *o = step->optimizer;
    return o->clip_value == 0 && step->unscale == 1 && step->scale == 1 &&
           decay_of(o) == 0;
}

static void adjust(const struct coxi_optimizer_step *step, const float *restrict w,
                   const float *restrict g, size_t n, float *restrict ret)
{
    float most = clip_of(step->optimizer);
    float decay = decay_of(step->optimizer);
    float unscale = step->unscale;
    float scale = step->scale;
    for (size_t i = 0; i < n; i++) {
        ret[i] = clip(g[i] * unscale, most) * scale + decay * w[i];
    }
}

/* Sums in double, because a double holds the square of any float. Keeps four sums, so
 * that the additions overlap. */
static double squares(const float *g, size_t n, float unscale, float most)
{
    double sums[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            double x = (double)clip(g[i + k] * unscale, most);
            sums[k] += x * x;
        }
    }
    for (; i < n; i++) {
        double x = (double)clip(g[i] * unscale, most);
        sums[0] += x * x;
    }
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

double coxi_optimizer_norm(const struct coxi_optimizer_step *step, const float *g,
                           size_t n)
{
    const struct coxi_optimizer *o = step->optimizer;
    return o->clip_norm > 0 ? squares(g, n, step->unscale, clip_of(o)) : 0;
}

void coxi_optimizer_clip(struct coxi_optimizer_step *step, double sum)
{
    double most = (double)step->optimizer->clip_norm;
    double norm = sqrt(sum);
    if (!isfinite(norm)) {
        step->scale = NAN; /* no finite factor scales such a norm to `most` */
    } else {
        step->scale = most > 0 && norm > most ? (float)(most / norm) : 1;
    }
}

/*
 * ---- rules. `restrict`: a row's values, state and gradient do not overlap
 *
 * A sum of squares stops at FLT_MAX, because an infinite one would end all steps of its
 * value. A NaN passes everywhere, because it must be seen in the value.
 */

static float bounded(float squares)
{
    return squares > FLT_MAX ? FLT_MAX : squares;
}

static void apply_sgd(float rate, float *restrict w, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

static void apply_momentum(float rate, float momentum, float *restrict w,
                           float *restrict velocity, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + g[i];
        w[i] -= rate * velocity[i];
    }
}

static void apply_nesterov(float rate, float momentum, float *restrict w,
                           float *restrict velocity, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + g[i];
        w[i] -= rate * (g[i] + momentum * velocity[i]);
    }
}

static void apply_adagrad(float rate, float epsilon, float *restrict w,
                          float *restrict sum, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] = bounded(sum[i] + g[i] * g[i]);
        float root = sqrtf(sum[i]) + epsilon;
        float delta = rate * g[i] / root;
        /* With a gradient of 0 and a sum of 0 the value stays; 0 / 0 would make it
         * NaN. */
        w[i] -= root == 0 ? 0 : delta;
    }
}

static void apply_rmsprop(const struct coxi_optimizer_step *step, float *restrict w,
                          float *restrict average, const float *restrict g, size_t n)
{
    const struct coxi_optimizer *o = step->optimizer;
    float rate = step->rate;
    float rest = step->rest1;
    float rho = o->rho;
    float epsilon = o->epsilon;
    for (size_t i = 0; i < n; i++) {
        average[i] = bounded(rho * average[i] + rest * (g[i] * g[i]));
        w[i] -= rate * g[i] / (sqrtf(average[i]) + epsilon);
    }
}

static void apply_adadelta(const struct coxi_optimizer_step *step, float *restrict w,
                           float *restrict average, float *restrict deltas,
                           const float *restrict g, size_t n)
{
    const struct coxi_optimizer *o = step->optimizer;
    float rate = step->rate;
    float rest = step->rest1;
    float rho = o->rho;
    float epsilon = o->epsilon;
    for (size_t i = 0; i < n; i++) {
        average[i] = bounded(rho * average[i] + rest * (g[i] * g[i]));
        float delta = sqrtf(deltas[i] + epsilon) / sqrtf(average[i] + epsilon) * g[i];
        deltas[i] = bounded(rho * deltas[i] + rest * (delta * delta));
        w[i] -= rate * delta;
    }
}

static void apply_adam(const struct coxi_optimizer_step *step, float *restrict w,
                       float *restrict m, float *restrict v, const float *restrict g,
                       size_t n)
{
    const struct coxi_optimizer *o = step->optimizer;
    float beta1 = o->beta1;
    float beta2 = o->beta2;
    float rest1 = step->rest1;
    float rest2 = step->rest2;
    float epsilon = o->epsilon;
    float rate = step->rate / step->correction_m;
    float root = 1 / sqrtf(step->correction_v);
    float shrink = o->kind == COXI_OPTIMIZER_ADAMW ? step->rate * o->weight_decay : 0;
    for (size_t i = 0; i < n; i++) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = bounded(beta2 * v[i] + rest2 * (g[i] * g[i]));
        w[i] -= shrink * w[i] + rate * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

static void apply_ftrl(float rate, const struct coxi_optimizer *o, float *restrict w,
                       float *restrict squares_sum, float *restrict z,
                       const float *restrict g, size_t n)
{
    float beta = o->beta;
    float l1 = o->l1;
    float l2 = 2 * o->l2;
    for (size_t i = 0; i < n; i++) {
        float before = sqrtf(squares_sum[i]);
        squares_sum[i] = bounded(squares_sum[i] + g[i] * g[i]);
        float root = sqrtf(squares_sum[i]);
        z[i] += g[i] - (root - before) / rate * w[i];
        float weight = (beta + root) / rate + l2;
        float value = (clip(z[i], l1) - z[i]) / weight;
        w[i] = weight == 0 ? 0 : value;
    }
}

/* `good` counts the steps since the scale last changed. */
static void apply_loss_scale(const struct coxi_optimizer *o, float *restrict w,
                             float *restrict good, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool overflowed = g[i] != 0;
        bool grows = !overflowed && good[i] + 1 >= o->growth_interval;
        float less = w[i] / o->growth_factor;
        float more = w[i] * o->growth_factor;
        if (overflowed) {
            w[i] = less > 1 ? less : w[i] < 1 ? w[i] : 1; /* never larger than before */
        } else if (grows && isfinite(more)) {
            w[i] = more;
        }
        good[i] = overflowed || grows ? 0 : good[i] + 1;
    }
}

static float *slot(float *const slots[COXI_SLOTS_MAX], size_t i)
{
    assert(slots[i] != NULL);
    return slots[i];
}

static void apply_rule(const struct coxi_optimizer_step *step, float *w,
                       float *const slots[COXI_SLOTS_MAX], const float *g, size_t n)
{
    const struct coxi_optimizer *o = step->optimizer;
    switch ((enum coxi_optimizer_kind)o->kind) {
    case COXI_OPTIMIZER_SGD:
    case COXI_OPTIMIZER_ROWWISE_ADAGRAD:
        apply_sgd(step->rate, w, g, n);
        return;
    case COXI_OPTIMIZER_ADAGRAD:
        apply_adagrad(step->rate, o->epsilon, w, slot(slots, 0), g, n);
        return;
    case COXI_OPTIMIZER_MOMENTUM:
        apply_momentum(step->rate, o->momentum, w, slot(slots, 0), g, n);
        return;
    case COXI_OPTIMIZER_NESTEROV:
        apply_nesterov(step->rate, o->momentum, w, slot(slots, 0), g, n);
        return;
    case COXI_OPTIMIZER_RMSPROP:
        apply_rmsprop(step, w, slot(slots, 0), g, n);
        return;
    case COXI_OPTIMIZER_ADADELTA:
        apply_adadelta(step, w, slot(slots, 0), slot(slots, 1), g, n);
        return;
    case COXI_OPTIMIZER_ADAM:
    case COXI_OPTIMIZER_ADAMW:
        apply_adam(step, w, slot(slots, 0), slot(slots, 1), g, n);
        return;
    case COXI_OPTIMIZER_FTRL:
        apply_ftrl(step->rate, o, w, slot(slots, 0), slot(slots, 1), g, n);
        return;
    case COXI_OPTIMIZER_LOSS_SCALE:
        apply_loss_scale(o, w, slot(slots, 0), g, n);
        return;
    case COXI_OPTIMIZER_NONE:
    case COXI_OPTIMIZER_END:
        return;
    }
}

void coxi_optimizer_apply(const struct coxi_optimizer_step *step, float *w,
                          float *const slots[COXI_SLOTS_MAX], const float *g, size_t n)
{
    if (is_plain(step)) {
        apply_rule(step, w, slots, g, n);
        return;
    }
    for (size_t at = 0; at < n; at += PIECE) {
        float adjusted[PIECE];
        size_t count = n - at < PIECE ? n - at : PIECE;
        float *const pieces[COXI_SLOTS_MAX] = {
            slots[0] != NULL ? slots[0] + at : NULL,
            slots[1] != NULL ? slots[1] + at : NULL,
        };
        adjust(step, w + at, g + at, count, adjusted);
        apply_rule(step, w + at, pieces, adjusted, count);
    }
}

/* ---- rows */

double coxi_optimizer_squares(const struct coxi_optimizer_step *step, const float *w,
                              const float *g, size_t n)
{
    if (is_plain(step)) {
        return squares(g, n, 1, INFINITY);
    }
    double sum = 0;
    for (size_t at = 0; at < n; at += PIECE) {
        float adjusted[PIECE];
        size_t count = n - at < PIECE ? n - at : PIECE;
        adjust(step, w + at, g + at, count, adjusted);
        sum += squares(adjusted, count, 1, INFINITY);
    }
    return sum;
}

struct coxi_optimizer_step
coxi_optimizer_row_step(const struct coxi_optimizer_step *step, double squares,
                        size_t n, float *accumulator)
{
    struct coxi_optimizer_step row = *step;
    double sum = (double)*accumulator + squares / (double)n;
    *accumulator = sum > (double)FLT_MAX ? FLT_MAX : (float)sum;
    float root = sqrtf(*accumulator) + step->optimizer->epsilon;
    row.rate = root == 0 ? 0 : step->rate / root;
    return row;
}

void coxi_optimizer_row(const struct coxi_optimizer_step *step, float *w, float *state,
                        const float *g, size_t n)
{
    struct coxi_optimizer_step row = *step;
    const struct coxi_optimizer *o = step->optimizer;
    size_t n_slots = coxi_optimizer_slots(o);
    float *const slots[COXI_SLOTS_MAX] = {
        n_slots > 0 ? state : NULL,
        n_slots > 1 ? state + n : NULL,
    };
    coxi_optimizer_clip(&row, coxi_optimizer_norm(&row, g, n));
    if (is_adam(o)) {
        float *t = state + 2 * n; /* stays at 2^24, where the corrections are 1 */
        *t += 1;
        set_t(&row, (double)*t);
    } else if (o->kind == COXI_OPTIMIZER_ROWWISE_ADAGRAD) {
        row = coxi_optimizer_row_step(&row, coxi_optimizer_squares(&row, w, g, n), n,
                                      state);
    }
    coxi_optimizer_apply(&row, w, slots, g, n);
}
