/* See packing.h. */
#include "coordinator/base/packing.h"

#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"

/* Checks the ranges of a call's fields; `call` is in this version's form. */
static int check_ranges(const struct cox_call *call)
{
    if (call->n_args > 0 && call->args == NULL) {
        return coxi_error(COX_EINVAL, "a call has %zu argument%s and no args",
                          call->n_args, coxi_s(call->n_args));
    }
    if (call->priority < COX_PRIORITY_MIN || call->priority > COX_PRIORITY_MAX) {
        return coxi_error(COX_EINVAL, "a call's priority is %d to %d, not %d",
                          COX_PRIORITY_MIN, COX_PRIORITY_MAX, call->priority);
    }
    if (call->n_inputs > COXI_VALUES_MAX ||
        (call->n_inputs > 0 && call->inputs == NULL)) {
        return coxi_error(COX_EINVAL, "a call has %zu input%s%s", call->n_inputs,
                          coxi_s(call->n_inputs),
                          call->inputs == NULL ? " and no array of them" : "");
    }
    if (call->timeout_ms < -1) {
        return coxi_error(COX_EINVAL, "a call's timeout_ms is %d", call->timeout_ms);
    }
    if (call->keep != 0 && call->keep != 1) {
        return coxi_error(COX_EINVAL, "a call's keep is 0 or 1, not %d", call->keep);
    }
    return 0;
}

/* The name of argument i; inputs come after the arguments. */
static const char *name_of(const struct cox_call *call, size_t i)
{
    const char *name =
        i < call->n_args ? call->args[i].name : call->inputs[i - call->n_args].name;
    return name != NULL ? name : "";
}

/* Checks that no two names are equal, because a step finds arguments by name; it finds
 * arguments without a name by their position. */
static int check_names(const struct cox_call *call)
{
    for (size_t i = 0; i < call->n_args + call->n_inputs; i++) {
        if (coxi_is_reserved(name_of(call, i))) {
            return coxi_error(COX_EINVAL,
                              "a call has an argument or input whose name begins with "
                              "\\1: such names are the library's");
        }
    }
    for (size_t i = 1; i < call->n_args + call->n_inputs; i++) {
        const char *name = name_of(call, i);
        for (size_t j = 0; j < i; j++) {
            if (name[0] != '\0' && strcmp(name, name_of(call, j)) == 0) {
                return coxi_error(COX_EINVAL,
                                  "a call has two arguments or inputs called '%.*s'",
                                  COX_NAME_MAX, name);
            }
        }
    }
    return 0;
}

/* Computes the bytes of the call's packed arguments. */
static int args_size(const struct cox_call *call, size_t *ret)
{
    int r = call->n_args <= COXI_VALUES_MAX
                ? coxi_values_size(call->args, call->n_args, ret)
                : coxi_error(COX_ELIMIT, "a call has %zu arguments, at most %d",
                             call->n_args, COXI_VALUES_MAX);
    if (r == 0 && *ret > COXI_CALL_ARGS_MAX) {
        r = coxi_error(COX_ELIMIT, "a call's arguments have more than %d bytes",
                       COXI_CALL_ARGS_MAX);
    }
    return r == 0 ? check_names(call) : r;
}

int coxi_packing_check(const struct cox_call *call, struct cox_call *ret_known,
                       size_t *ret_size)
{
    struct cox_call known = COX_CALL_INIT;
    int r = 0;
    if (call != NULL && call->size == sizeof(known)) {
        known = *call;
    } else if (call != NULL) { /* of another version */
        r = coxi_struct_copy(&known, COXI_STRUCT_CALL, call);
    }
    if (r == 0) {
        r = check_ranges(&known);
    }
    if (r == 0) {
        r = args_size(&known, ret_size);
    }
    if (r == 0) {
        *ret_known = known;
    }
    return r;
}

int coxi_packing_args(const struct cox_call *known, struct coxi_buffer *args)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < known->n_args; i++) {
        r = coxi_values_add(args, &known->args[i]);
    }
    return r;
}

uint32_t coxi_packing_timeout(const struct cox_coordinator *c,
                              const struct cox_call *known)
{
    int timeout_ms =
        known->timeout_ms != 0 ? known->timeout_ms : c->options.step_timeout_ms;
    return timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
}
