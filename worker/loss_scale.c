/*
 * The loss scale of a step: the number by which its gradients are multiplied.
 *
 * A step asks for the scale before its first gradient. The gradients of a segment are
 * sent with that number beside them, and each ps divides by it. Gradients that
 * overflowed are not applied (overflow.c). The update of the loss scale itself is the
 * last one of the last segment, because gradients may overflow until then.
 *
 * Threads: a slot.
 */
#include "worker/loss_scale.h"

#include <math.h>

#include "common/error.h"
#include "common/rule.h"
#include "worker/accumulate.h"
#include "worker/pull.h"
#include "worker/push.h"

static int pull_scale(struct coxi_attempt *attempt, struct cox_variable *scale,
                      float *ret)
{
    struct coxi_fetch *fetch = NULL;
    const struct cox_pull pull = {scale, {0, 0, NULL, 0}, ret, 0};
    int r = coxi_pull_begin(attempt, &pull, 1, true, &fetch);
    return r == 0 ? coxi_pull_wait(attempt, fetch) : r;
}

static bool has_gradients(const struct coxi_attempt *attempt)
{
    bool any = coxi_accumulate_any(attempt);
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        any = any || attempt->targets[p].gradients.len > 0;
    }
    return any;
}

static int check_asked(const struct coxi_attempt *attempt,
                       const struct coxi_variable *v)
{
    if (v->optimizer.kind != COXI_OPTIMIZER_LOSS_SCALE) {
        return coxi_error(COX_EINVAL, "'%s' is no loss scale, but %s", v->name,
                          v->optimizer.kind == COXI_OPTIMIZER_NONE
                              ? "has no optimizer"
                              : coxi_optimizer_name(&v->optimizer));
    }
    if (attempt->scale != NULL && attempt->scale != v) {
        return coxi_error(COX_EINVAL, "the gradients of this step are scaled by '%s'",
                          attempt->scale->name);
    }
    if (attempt->scale == NULL && has_gradients(attempt)) {
        return coxi_error(COX_EINVAL,
                          "ask for the loss scale '%s' before the first gradient: it "
                          "multiplies all gradients of the step",
                          v->name);
    }
    return 0;
}

int coxi_loss_scale_ask(struct coxi_attempt *attempt, struct cox_variable *scale,
                        float *ret)
{
    const struct coxi_variable *v = scale->description;
    float value = attempt->loss_scale;
    int r = check_asked(attempt, v);
    if (r == 0 && attempt->scale == NULL) {
        r = pull_scale(attempt, scale, &value);
    }
    if (r == 0 && (!isfinite(value) || !(value > 0))) {
        r = coxi_error(COX_EINVAL,
                       "the loss scale '%s' is %g: start it at a constant above 0",
                       v->name, (double)value);
    }
    if (r == 0) {
        attempt->scale = v;
        attempt->loss_scale = value;
        *ret = value;
    }
    return r;
}

int coxi_loss_scale_end(struct coxi_attempt *attempt)
{
    static const struct cox_rows all = {0, 0, NULL, 0};
    const float told = attempt->overflowed ? 1 : 0;
    if (attempt->told != NULL) {
        return coxi_push_now(attempt, attempt->told, COXI_OP_GRADIENT, &all, &told);
    }
    return attempt->overflowed
               ? coxi_error(COX_ENONFINITE, "%s", attempt->overflow_text)
               : 0;
}
