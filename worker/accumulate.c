/*
 * Gradients of several batches, merged in memory of the step, and pushed as one
 * gradient of each variable. Sums are in F32, in the order of the calls, so that every
 * attempt has the same. The gradient is narrowed, and checked for numbers that are not
 * finite, when it is pushed (push.c): the sum of finite numbers may be infinite.
 *
 * How much a step may accumulate does not flush it: where a step flushes must be the
 * same on every worker, and workers may have different limits.
 *
 * Threads: a slot. Cost: a hash for each listed row, and an addition for each number;
 * one copy of the sums when they are pushed.
 */
#include "worker/accumulate.h"

#include <math.h>

#include "common/error.h"
#include "worker/push.h"

/* The sums of a variable's gradients, which begin empty. */
static int sums_of(struct coxi_attempt *attempt, struct cox_variable *variable,
                   struct coxi_row_store **ret)
{
    struct coxi_row_stores *all = &attempt->scratch->sums;
    *ret = coxi_row_stores_find(all, variable);
    if (*ret != NULL) {
        return 0;
    }
    int r = coxi_row_stores_take(all, sizeof(**ret), variable, ret);
    if (r == 0) {
        (*ret)->n_columns = 1;
        (*ret)->widths[0] = variable->row_bytes;
        for (size_t i = 0; i < variable->n_versions; i++) {
            coxi_versions_renew(&attempt->scratch->versions, variable->versions + i);
        }
    }
    return r;
}

int coxi_accumulate(struct coxi_attempt *attempt, struct cox_variable *variable,
                    const struct cox_rows *rows, const float *gradient)
{
    const struct coxi_variable *v = variable->description;
    struct coxi_row_store *sums = NULL;
    int r = coxi_push_check(v, COXI_OP_GRADIENT, rows, gradient);
    if (r == 0 && v->optimizer.kind == COXI_OPTIMIZER_LOSS_SCALE) {
        r = coxi_error(COX_EINVAL,
                       "the loss scale '%s' accumulates nothing: call "
                       "cox_step_loss_scale_update once in a step",
                       v->name);
    }
    r = r == 0 ? sums_of(attempt, variable, &sums) : r;
    return r == 0
               ? coxi_row_store_merge(sums, rows, gradient, &attempt->scratch->budget,
                                      &attempt->scratch->row_work)
               : r;
}

/* Pushes the sums of one variable, multiplied by `scale`. */
static int push(struct coxi_attempt *attempt, const struct coxi_row_store *sums,
                float scale)
{
    float *values = coxi_row_at(sums, 0, 0);
    size_t n = sums->n * (sums->widths[0] / sizeof(float));
    for (size_t i = 0; scale != 1 && i < n; i++) {
        values[i] *= scale;
    }
    const struct cox_rows rows = coxi_row_store_rows(sums, 0, sums->n);
    return coxi_push_merged(attempt, sums->variable, &rows, values);
}

int coxi_accumulate_push(struct coxi_attempt *attempt, float scale)
{
    struct coxi_scratch *scratch = attempt->scratch;
    int r = isfinite(scale) ? 0
                            : coxi_error(COX_EINVAL,
                                         "accumulated gradients times %g: give a "
                                         "finite number",
                                         (double)scale);
    for (const struct coxi_row_store *sums = scratch->sums.first;
         r == 0 && sums != NULL && sums->variable != NULL; sums = sums->next) {
        r = sums->n > 0 ? push(attempt, sums, scale) : 0;
        scratch->budget.bytes -= coxi_row_store_bytes(sums);
    }
    coxi_row_stores_reset(&scratch->sums, scratch->budget.bytes_max);
    return r;
}

bool coxi_accumulate_any(const struct coxi_attempt *attempt)
{
    const struct coxi_row_store *first = attempt->scratch->sums.first;
    return first != NULL && first->variable != NULL;
}
