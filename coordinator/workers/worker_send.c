/*
 * What a worker is sent of closures: dispatches, collected and sent as one message in a turn
 * of the loop, and recalls. On the loop.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/worker.h"

enum {
    BUFFERS_KEPT = 1 << 24, /* bytes for dispatches, of all workers together */
    ARGS_EXPECTED_MAX = 1 << 20,
};

void coxi_worker_drop_collected(struct coxi_worker *worker)
{
    coxi_buffer_fini(&worker->heads);
    coxi_buffer_fini(&worker->args);
    coxi_buffer_fini(&worker->keep);
    coxi_buffer_fini(&worker->alone);
    coxi_buffer_fini(&worker->inputs);
}

int coxi_worker_collect(struct coxi_worker *worker, const struct cox_future *f,
                        uint32_t attempt)
{
    size_t args_len = 0;
    const void *args = coxi_inputs_args(f, &args_len);
    struct coxi_closure_head head = {
        .closure = f->id,
        .attempt = attempt,
        .module = f->function->module->id,
        .function = f->function->index,
        .args_len = (uint32_t)args_len,
        .timeout_ms = f->timeout_ms,
    };
    uint32_t at = (uint32_t)(worker->heads.len / sizeof(head));
    int r = coxi_buffer_reserve(&worker->heads, sizeof(head));
    if (r == 0) {
        r = coxi_buffer_reserve(&worker->keep, sizeof(at));
    }
    if (r == 0 && f->suspect) {
        r = coxi_buffer_reserve(&worker->alone, sizeof(at));
    }
    if (r == 0 && worker->args.data == NULL && args_len > 0) {
        /* As much as went the last time, at once: growing would copy it all again. */
        r = coxi_buffer_reserve(&worker->args, worker->args_expected);
    }
    if (r == 0) {
        r = coxi_buffer_append(&worker->args, args, args_len);
    }
    if (r == 0) {
        r = coxi_inputs_collect(f, at, &worker->inputs);
    }
    if (r == 0) {
        (void)coxi_buffer_append_raw(&worker->heads, &head, sizeof(head));
    }
    if (r == 0 && f->kept != NULL) {
        (void)coxi_buffer_append_raw(&worker->keep, &at, sizeof(at));
    }
    if (r == 0 && f->suspect) {
        (void)coxi_buffer_append_raw(&worker->alone, &at, sizeof(at));
    }
    return r;
}

static void recall(struct coxi_worker *worker, const struct coxi_recall *recall)
{
    struct coxi_message message = {.kind = COXI_RECALL, .recall = *recall};
    message.recall.grace_ms = (uint32_t)worker->c->options.cancel_grace_ms;
    (void)coxi_message_send(coxi_conn_link(worker->control), &message, NULL, false);
}

void coxi_worker_recall(struct coxi_worker *worker, uint64_t closure, uint32_t attempt,
                        bool running)
{
    struct coxi_recall_head head = {closure, attempt, 0};
    coxi_worker_send(worker); /* it may be among what is collected */
    recall(worker, &(struct coxi_recall){
                       .closures = &head, .n_closures = 1, .running = running});
}

void coxi_worker_recall_waiting(struct coxi_worker *worker)
{
    if (coxi_worker_load(worker) > 0) {
        coxi_worker_send(worker);
        recall(worker, &(struct coxi_recall){.all = true});
    }
}

void coxi_worker_recall_all(struct coxi_worker *worker)
{
    if (coxi_worker_load(worker) > 0) {
        coxi_worker_send(worker);
        recall(worker, &(struct coxi_recall){.all = true, .running = true});
    }
}

/* What a closure's id is less, as its step: those sent together are all from before or all from
 * after a loading, which is a barrier in a replay. */
static uint64_t steps_first(const struct cox_coordinator *c, uint64_t closure)
{
    return closure < atomic_load(&c->steps_loaded)
               ? atomic_load(&c->steps_from)
               : atomic_load(&c->first_closure) - atomic_load(&c->steps_before);
}

void coxi_worker_send(struct coxi_worker *worker)
{
    size_t n = worker->heads.len / sizeof(struct coxi_closure_head);
    if (n == 0) {
        return;
    }
    struct coxi_message message = {.kind = COXI_DISPATCH};
    message.dispatch.closures =
        (const struct coxi_closure_head *)(void *)worker->heads.data;
    message.dispatch.n_closures = n;
    message.dispatch.grace_ms = (uint32_t)worker->c->options.cancel_grace_ms;
    message.dispatch.sent_us = coxi_now_us();
    message.dispatch.first =
        steps_first(worker->c, message.dispatch.closures[0].closure);
    message.dispatch.keep = (const uint32_t *)(void *)worker->keep.data;
    message.dispatch.n_keep = worker->keep.len / sizeof(uint32_t);
    message.dispatch.alone = (const uint32_t *)(void *)worker->alone.data;
    message.dispatch.n_alone = worker->alone.len / sizeof(uint32_t);
    message.dispatch.inputs =
        (const struct coxi_kept_input *)(void *)worker->inputs.data;
    message.dispatch.n_inputs = worker->inputs.len / sizeof(struct coxi_kept_input);
    struct iovec segment = {worker->args.data, worker->args.len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    if (worker->args.len >= COXI_LINK_COPY_MAX) {
        payload.release = free;
        payload.arg = worker->args.data;
        worker->args_expected =
            worker->args.len < ARGS_EXPECTED_MAX ? worker->args.len : ARGS_EXPECTED_MAX;
        worker->args = (struct coxi_buffer){0};
    }
    /* Over control, however long: it must not overtake a layout, nor a recall it. */
    if (coxi_message_send(coxi_conn_link(worker->control), &message, &payload, false) !=
        0) {
        coxi_conn_close(worker->control, COX_ELIMIT, "a dispatch could not be sent");
    }
    worker->heads.len = 0;
    worker->args.len = 0;
    worker->keep.len = 0;
    worker->alone.len = 0;
    worker->inputs.len = 0;
    if (worker->heads.capacity + worker->args.capacity >
        BUFFERS_KEPT / worker->c->n_workers) {
        coxi_worker_drop_collected(worker);
    }
}
