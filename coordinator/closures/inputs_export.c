/*
 * Writes the arguments of an unsettled call into a checkpoint's backlog, because the
 * next client may have to run the call. For values that are not known yet it names the
 * closure that returns them.
 *
 * Threads: the loop, after coxi_inputs_go_on.
 */
#include <string.h>

#include "checkpoint/backlog.h"
#include "common/buffer.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/inputs_internal.h"
#include "coordinator/closures/kept.h"

/* True if some arguments are not packed, and must still come from the inputs. */
static bool lacks_some(const struct coxi_closure *closure)
{
    return closure->inputs != NULL &&
           (closure->state == COXI_WAITING || coxi_inputs_take_kept(closure->inputs));
}

/* Describes an input whose value another closure will provide. */
static int export_pending(const struct coxi_input *input, struct coxi_buffer *ret)
{
    struct coxi_backlog_input pending = {.closure = input->source->future.id.n};
    memcpy(pending.name, input->name, sizeof(pending.name));
    memcpy(pending.result, input->result, sizeof(pending.result));
    return coxi_buffer_append(ret, &pending, sizeof(pending));
}

static bool is_at_hand(const struct coxi_input *input)
{
    return coxi_closure_is_over(input->source) && coxi_kept_is_here(input->source);
}

/* Appends the known arguments, packed as those of one call. */
static int export_known(const struct coxi_closure *closure, struct coxi_buffer *ret)
{
    int r = coxi_buffer_append(ret, closure->args, closure->args_len);
    for (size_t i = 0; r == 0 && i < closure->inputs->n; i++) {
        if (is_at_hand(&closure->inputs->items[i])) {
            r = coxi_input_pack(&closure->inputs->items[i], ret);
        }
    }
    return r;
}

/* Builds the packed form in a buffer of its own, because it begins with the number of
 * its values. */
static int export_lacking(const struct coxi_closure *closure, struct coxi_buffer *args,
                          struct coxi_buffer *inputs, size_t *ret_n)
{
    struct coxi_buffer known = {0};
    int r = export_known(closure, &known);
    r = r != 0 ? r : coxi_buffer_append(args, known.data, known.len);
    coxi_buffer_fini(&known);
    for (size_t i = 0; r == 0 && i < closure->inputs->n; i++) {
        if (!is_at_hand(&closure->inputs->items[i])) {
            r = export_pending(&closure->inputs->items[i], inputs);
            ++*ret_n;
        }
    }
    return r;
}

int coxi_inputs_export(struct coxi_closure *closure, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n)
{
    size_t len = 0;
    *ret_n = 0;
    if (lacks_some(closure)) {
        return export_lacking(closure, args, inputs, ret_n);
    }
    const void *packed = coxi_inputs_args(closure, &len);
    return coxi_buffer_append(args, packed, len);
}

struct coxi_closure *coxi_inputs_pending(const struct coxi_closure *closure, size_t i)
{
    return lacks_some(closure) && i < closure->inputs->n &&
                   !is_at_hand(&closure->inputs->items[i])
               ? closure->inputs->items[i].source
               : NULL;
}

size_t coxi_inputs_count(const struct coxi_closure *closure)
{
    return closure->inputs != NULL ? closure->inputs->n : 0;
}
