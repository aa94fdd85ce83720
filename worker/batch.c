/* See batch.h. */
#include "worker/batch.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

void coxi_batch_done(struct coxi_batch *batch, size_t n)
{
    if (n > 0 && atomic_fetch_sub(&batch->n_left, n) == n) {
        coxi_run_unref(batch->run);
        free(batch);
    }
}

/* Bytes of the names in a dispatch's inputs; COX_EPROTO: they are malformed. */
static int measure_inputs(const struct coxi_dispatch *dispatch, size_t *ret)
{
    struct coxi_kept_input last = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < dispatch->n_inputs; i++) {
        struct coxi_kept_input input;
        if (!coxi_dispatch_input(dispatch, i, &input) ||
            (i > 0 && (input.at < last.at ||
                       (input.at == last.at && input.position <= last.position)))) {
            return coxi_error(COX_EPROTO, "malformed inputs of closures");
        }
        bytes += strlen(input.name) + strlen(input.result) + 2;
        last = input;
    }
    *ret = bytes;
    return 0;
}

static const char *put_name(char **at, const char *name)
{
    char *copy = *at;
    *at = stpcpy(copy, name) + 1;
    return copy;
}

/* Gives each call its kept inputs, which are stored in `taken` and `names`. */
static void put_inputs(struct coxi_batch *batch, const struct coxi_dispatch *dispatch,
                       struct coxi_taken *taken, char *names)
{
    for (size_t i = 0; i < dispatch->n_inputs; i++) {
        struct coxi_kept_input input;
        (void)coxi_dispatch_input(dispatch, i, &input);
        struct coxi_call *call = &batch->calls[input.at];
        taken[i] = (struct coxi_taken){
            .closure = input.closure,
            .position = input.position,
            .name = put_name(&names, input.name),
            .result = put_name(&names, input.result),
        };
        call->taken = call->n_taken == 0 ? &taken[i] : call->taken;
        call->n_taken++;
    }
    for (size_t i = 0; i < dispatch->n_keep; i++) {
        batch->calls[dispatch->keep[i]].keep = true;
    }
    for (size_t i = 0; i < dispatch->n_alone; i++) {
        batch->calls[dispatch->alone[i]].alone = true;
    }
}

/* Finds the arguments of each call in `args`; COX_EPROTO: they are not `len` bytes. */
static int put_args(struct coxi_batch *batch, const uint8_t *args, size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < batch->n; i++) {
        size_t args_len = batch->heads[i].args_len;
        batch->calls[i] = (struct coxi_call){.args = args + at, .args_len = args_len};
        at += coxi_align(args_len, 8);
    }
    return at == len ? 0
                     : coxi_error(COX_EPROTO,
                                  "arguments of %zu bytes in a payload of "
                                  "%zu",
                                  at, len);
}

int coxi_batch_new(struct coxi_run *run, const struct coxi_dispatch *dispatch,
                   const void *payload, size_t len, struct coxi_batch **ret)
{
    size_t n = dispatch->n_closures;
    size_t heads_len = n * sizeof(struct coxi_closure_head);
    size_t calls_len = n * sizeof(struct coxi_call);
    size_t taken_len = dispatch->n_inputs * sizeof(struct coxi_taken);
    size_t names_len = 0;
    int r = measure_inputs(dispatch, &names_len);
    if (r != 0) {
        return r;
    }
    struct coxi_batch *batch =
        malloc(sizeof(*batch) + heads_len + calls_len + taken_len + len + names_len);
    if (batch == NULL) {
        return coxi_error_memory("closures");
    }
    *batch = (struct coxi_batch){
        .run = run,
        .layouts = atomic_load(&run->n_layouts),
        .grace_ms = atomic_load(&run->grace_ms),
        .n = n,
    };
    atomic_init(&batch->n_left, n);
    uint8_t *at = (uint8_t *)batch->heads + heads_len;
    batch->calls = (struct coxi_call *)(void *)at;
    struct coxi_taken *taken = (struct coxi_taken *)(void *)(at + calls_len);
    uint8_t *args = at + calls_len + taken_len;
    memcpy(batch->heads, dispatch->closures, heads_len);
    if (len > 0) {
        memcpy(args, payload, len);
    }
    r = put_args(batch, args, len);
    if (r != 0) {
        free(batch);
        return r;
    }
    put_inputs(batch, dispatch, taken, (char *)args + len);
    (void)coxi_run_ref(run);
    *ret = batch;
    return 0;
}
