/* Messages about closures to a worker: recalls, and dispatches, which are collected and
 * sent as one message in each turn of the loop. On the loop. */
#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/send.h"
#include "coordinator/workers/module.h"

enum {
    BUFFERS_KEPT = 1 << 24, /* bytes for dispatches, of all workers together */
    ARGS_EXPECTED_MAX = 1 << 20,
};

int coxi_send_add(struct coxi_seat *seat, const struct coxi_closure *closure,
                  uint32_t attempt)
{
    size_t args_len = closure->args_len;
    const void *args =
        closure->inputs != NULL ? coxi_inputs_args(closure, &args_len) : closure->args;
    struct coxi_closure_head head = {
        .closure = closure->future.id.n,
        .attempt = attempt,
        .module = closure->function->module->id,
        .function = closure->function->index,
        .args_len = (uint32_t)args_len,
        .timeout_ms = closure->asked.timeout_ms,
    };
    uint32_t at = (uint32_t)(seat->heads.len / sizeof(head));
    int r = coxi_buffer_reserve(&seat->heads, sizeof(head));
    if (r == 0) {
        r = coxi_buffer_reserve(&seat->keep, sizeof(at));
    }
    if (r == 0 && closure->mishaps.suspect) {
        r = coxi_buffer_reserve(&seat->alone, sizeof(at));
    }
    if (r == 0 && seat->args.data == NULL && args_len > 0) {
        /* Reserves as much as the last dispatch took, because growing would copy all
         * arguments again. */
        r = coxi_buffer_reserve(&seat->args, seat->args_expected);
    }
    if (r == 0) {
        r = coxi_buffer_append(&seat->args, args, args_len);
    }
    if (r == 0 && coxi_maybe_is_some(closure->home)) {
        r = coxi_inputs_collect(closure, at, &seat->inputs);
    }
    if (r == 0) {
        (void)coxi_buffer_append_raw(&seat->heads, &head, sizeof(head));
    }
    if (r == 0 && closure->kept != NULL) {
        (void)coxi_buffer_append_raw(&seat->keep, &at, sizeof(at));
    }
    if (r == 0 && closure->mishaps.suspect) {
        (void)coxi_buffer_append_raw(&seat->alone, &at, sizeof(at));
    }
    return r;
}

static void recall(struct coxi_seat *seat, const struct coxi_recall *recall)
{
    struct coxi_message message = {.kind = COXI_RECALL, .recall = *recall};
    message.recall.grace_ms = (uint32_t)seat->c->options.cancel_grace_ms;
    (void)coxi_worker_send(seat->worker, &message, NULL);
}

void coxi_send_recall(struct coxi_seat *seat, struct coxi_closure_id id,
                      uint32_t attempt, bool running)
{
    struct coxi_recall_head head = {id.n, attempt, 0};
    coxi_send_flush(seat); /* the attempt may be in the collected dispatch */
    recall(seat, &(struct coxi_recall){
                     .closures = &head, .n_closures = 1, .running = running});
}

static void recall_all(struct coxi_seat *seat, bool running)
{
    if (coxi_seat_load(seat) > 0) {
        coxi_send_flush(seat);
        recall(seat, &(struct coxi_recall){.all = true, .running = running});
    }
}

void coxi_send_recall_waiting(struct coxi_seat *seat)
{
    recall_all(seat, false);
}

void coxi_send_recall_all(struct coxi_seat *seat)
{
    recall_all(seat, true);
}

/*
 * The number to subtract from a closure's id to get its step. Closures that are sent
 * together are all from before a loading or all from after it, because a loading is a
 * barrier in a replay.
 */
static uint64_t first_step(const struct coxi_ids *ids, uint64_t closure)
{
    return closure < atomic_load(&ids->steps_loaded)
               ? atomic_load(&ids->steps_from)
               : atomic_load(&ids->first_closure) - atomic_load(&ids->steps_before);
}

void coxi_send_flush(struct coxi_seat *seat)
{
    size_t n = seat->heads.len / sizeof(struct coxi_closure_head);
    if (n == 0) {
        return;
    }
    struct coxi_message message = {.kind = COXI_DISPATCH};
    message.dispatch.closures =
        (const struct coxi_closure_head *)(void *)seat->heads.data;
    message.dispatch.n_closures = n;
    message.dispatch.grace_ms = (uint32_t)seat->c->options.cancel_grace_ms;
    message.dispatch.sent_us = coxi_now_us();
    message.dispatch.first =
        first_step(&seat->c->ids, message.dispatch.closures[0].closure);
    message.dispatch.keep = (const uint32_t *)(void *)seat->keep.data;
    message.dispatch.n_keep = seat->keep.len / sizeof(uint32_t);
    message.dispatch.alone = (const uint32_t *)(void *)seat->alone.data;
    message.dispatch.n_alone = seat->alone.len / sizeof(uint32_t);
    message.dispatch.inputs = (const struct coxi_kept_input *)(void *)seat->inputs.data;
    message.dispatch.n_inputs = seat->inputs.len / sizeof(struct coxi_kept_input);
    struct iovec segment = {seat->args.data, seat->args.len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    if (seat->args.len >= COXI_LINK_COPY_MAX) {
        payload.release = free;
        payload.arg = seat->args.data;
        seat->args_expected =
            seat->args.len < ARGS_EXPECTED_MAX ? seat->args.len : ARGS_EXPECTED_MAX;
        seat->args = (struct coxi_buffer){0};
    }
    /* Sent over the control connection, even if it is long: it must not overtake a
     * layout, and a recall must not overtake it. */
    if (coxi_worker_send(seat->worker, &message, &payload) != 0) {
        coxi_worker_give_up(seat->worker, COX_ELIMIT, "a dispatch could not be sent");
    }
    seat->heads.len = 0;
    seat->args.len = 0;
    seat->keep.len = 0;
    seat->alone.len = 0;
    seat->inputs.len = 0;
    if (seat->heads.capacity + seat->args.capacity >
        BUFFERS_KEPT / seat->c->workers->n) {
        coxi_seat_drop_collected(seat);
    }
}
