/*
 * Scaled gradients that overflowed. They are taken out of the segment just before it is
 * sent. The ps are still touched as by any other step, with a commit that may be empty,
 * and no value changes.
 *
 * Threads: a slot. Cost: 24 bytes for each update that is a gradient.
 */
#include "worker/overflow.h"

#include <stdio.h>
#include <string.h>

#include "common/error.h"

int coxi_overflow_tell(struct coxi_attempt *attempt, struct cox_variable *v,
                       bool overflowed)
{
    if (attempt->told != NULL && attempt->told != v) {
        return coxi_error(COX_EINVAL,
                          "this step reports to two loss scales, '%s' and '%s'",
                          attempt->told->name, v->name);
    }
    attempt->told = v;
    attempt->overflowed = attempt->overflowed || overflowed;
    return 0;
}

int coxi_overflow_nonfinite(struct coxi_attempt *attempt, int code)
{
    if (attempt->scale == NULL) {
        return code;
    }
    (void)snprintf(attempt->overflow_text, sizeof(attempt->overflow_text), "%s",
                   coxi_error_text());
    attempt->overflowed = true;
    return 0;
}

static void take_out(struct coxi_buffer *buffer, size_t at, size_t len)
{
    size_t end = at + len;
    if (end < buffer->len) {
        memmove(buffer->data + at, buffer->data + end, buffer->len - end);
    }
    buffer->len -= len;
}

/* Takes the gradients out of the updates for a ps; the last one first, because the
 * updates after a gradient move. */
static void skip(struct coxi_target *target)
{
    const struct coxi_gradient *gradients =
        (const struct coxi_gradient *)(void *)target->gradients.data;
    const size_t size = sizeof(struct coxi_update);
    for (size_t i = target->gradients.len / sizeof(*gradients); i-- > 0;) {
        take_out(&target->update_payload, gradients[i].at, gradients[i].len);
        take_out(&target->updates, gradients[i].update * size, size);
        if (gradients[i].update < target->pulled.len / sizeof(uint64_t)) {
            take_out(&target->pulled, gradients[i].update * sizeof(uint64_t),
                     sizeof(uint64_t));
        }
    }
    target->gradients.len = 0;
}

void coxi_overflow_skip(struct coxi_attempt *attempt)
{
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        skip(&attempt->targets[p]);
    }
}
