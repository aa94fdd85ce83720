/* What inputs.c and inputs_export.c share. */
#ifndef COXI_COORDINATOR_CLOSURES_INPUTS_INTERNAL_H
#define COXI_COORDINATOR_CLOSURES_INPUTS_INTERNAL_H

#include "common/buffer.h"
#include "coordinator/closures/closure.h"

struct coxi_input {
    struct coxi_input *next; /* of the inputs that wait for the same future */
    struct coxi_closure *owner;
    struct coxi_closure *source; /* a reference; NULL: the value was taken */
    bool wants;                  /* it counts as a user of the results of `source` */
    char name[COX_NAME_MAX + 1];
    char result[COX_NAME_MAX + 1];
};

struct coxi_inputs {
    /* all arguments that travel, set when the last input has come */
    struct coxi_buffer packed;
    size_t n_pending;
    size_t n;
    struct coxi_input items[];
};

/* Appends the result that an input names, under the input's name. COX_ENOENT: there is
 * no such result; COX_ENOMEM. */
int coxi_input_pack(const struct coxi_input *input, struct coxi_buffer *ret);

/* True if a worker keeps, or kept, some result that the inputs take. */
bool coxi_inputs_take_kept(const struct coxi_inputs *inputs);

#endif
