/*
 * A closure's way on the loop: from the intake into the queue, and from there to a
 * worker, with the messages about it. attempts.c handles what follows.
 *
 * A turn of the loop handles mail (frames from workers) and then runs coxi_dispatch
 * once: closures of many calls leave in one message to each worker, and users are told
 * of all settled closures under one lock.
 */
#include "coordinator/closures/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "common/trace.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/schedule.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/voiding.h"
#include "coordinator/workers/layout.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/resource.h"
#include "net/ps_client.h"

enum {
    CHUNK_MAX = 16,              /* closures given to one worker at a time */
    MESSAGE_CLOSURES_MAX = 1024, /* in one dispatch */
    MESSAGE_BYTES_MAX = 1 << 20,
    WATERMARK_STEP = 1024, /* closures between two watermarks, under load */
    WATERMARK_MS = 1000,
    BUFFERS_KEPT = 1 << 24, /* bytes for dispatches, of all workers together */
    ARGS_EXPECTED_MAX = 1 << 20,
};

/* ---- messages to a worker */

/* Notes the round of head `at`, if any head so far is in one. Reserves what it needs
 * first. */
static int add_round(struct coxi_seat *seat, const struct coxi_closure *closure,
                     uint32_t attempt, uint32_t at)
{
    const struct coxi_round_head none = {0};
    const struct coxi_round_head head = coxi_round_head(closure, attempt);
    if (head.round == 0 && seat->rounds.len == 0) {
        return 0;
    }
    int r =
        coxi_buffer_reserve(&seat->rounds, (at + 1) * sizeof(head) - seat->rounds.len);
    while (r == 0 && seat->rounds.len < at * sizeof(head)) {
        (void)coxi_buffer_append_raw(&seat->rounds, &none, sizeof(none));
    }
    return r == 0 ? coxi_buffer_append_raw(&seat->rounds, &head, sizeof(head)) : r;
}

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
    if (r == 0 && closure->home != NULL) {
        r = coxi_inputs_collect(closure, at, &seat->inputs);
    }
    if (r == 0) {
        r = add_round(seat, closure, attempt, at);
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

/* Asks for all attempts back; `running`: cancels those that run. */
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
    message.dispatch.rounds =
        seat->rounds.len > 0 ? (const struct coxi_round_head *)(void *)seat->rounds.data
                             : NULL;
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
    uint64_t begun_ns = coxi_trace_begin();
    int r = coxi_worker_send(seat->worker, &message, &payload);
    coxi_trace_end(begun_ns, &(struct coxi_trace_of){
                                 .kind = COXI_TRACE_DISPATCH,
                                 .arg = (uint32_t)message.dispatch.n_closures});
    if (r != 0) {
        coxi_worker_give_up(seat->worker, COX_ELIMIT, "a dispatch could not be sent");
    }
    seat->heads.len = 0;
    seat->args.len = 0;
    seat->keep.len = 0;
    seat->alone.len = 0;
    seat->inputs.len = 0;
    seat->rounds.len = 0;
    if (seat->heads.capacity + seat->args.capacity >
        BUFFERS_KEPT / seat->c->workers->n) {
        coxi_seat_drop_collected(seat);
    }
}

/* ---- from the queue to workers */

static int assign_one(struct coxi_seat *seat, struct coxi_closure *closure)
{
    int r = coxi_send_add(seat, closure, closure->attempts.last + 1);
    if (r != 0) {
        return r;
    }
    coxi_closure_dequeue(closure);
    coxi_closure_set(closure, COXI_ASSIGNED);
    bool is_first = closure->attempts.last == 0;
    closure->attempts.last++;
    closure->attempts.current = closure->attempts.last;
    closure->attempts.called_back = false;
    closure->attempts.epoch = closure->future.c->ps.epoch;
    coxi_seat_take(seat, closure);
    if (is_first) {
        coxi_run_times_add(&closure->future.c->times.dispatch, closure->scheduled_us);
    }
    if (is_first && closure->round != NULL) {
        coxi_round_given(closure, seat);
    }
    return 0;
}

/* Gives the worker up to `n` closures of `priority` or above from the queue; returns
 * how many. */
static size_t give(struct coxi_seat *seat, struct coxi_queue *queue, int8_t priority,
                   size_t n)
{
    struct cox_coordinator *c = seat->c;
    size_t given = 0;
    struct coxi_closure *closure;
    while (given < n && (closure = coxi_queue_first(queue)) != NULL &&
           closure->asked.priority >= priority && assign_one(seat, closure) == 0) {
        given++;
        if (seat->heads.len >=
                MESSAGE_CLOSURES_MAX * sizeof(struct coxi_closure_head) ||
            seat->inputs.len >= MESSAGE_CLOSURES_MAX * sizeof(struct coxi_kept_input) ||
            seat->args.len >= MESSAGE_BYTES_MAX) {
            coxi_send_flush(seat);
        }
    }
    coxi_seat_update(seat);
    if (given > 0 && !seat->is_collected) {
        seat->is_collected = true;
        seat->next_collected = c->closures->collected;
        c->closures->collected = seat;
    }
    return given;
}

/* Assigns closures of `priority` or above that only one worker may run. */
static void assign_own(struct cox_coordinator *c, int8_t priority)
{
    struct coxi_seat **link = &c->closures->owners;
    for (struct coxi_seat *seat; (seat = *link) != NULL;) {
        size_t capacity = coxi_seat_capacity(seat);
        if (seat->worker->state == COXI_WORKER_READY &&
            coxi_seat_load(seat) < capacity) {
            (void)give(seat, &seat->queue, priority, capacity - coxi_seat_load(seat));
        }
        if (seat->queue.n > 0) {
            link = &seat->next_owner;
        } else {
            seat->is_owner = false;
            *link = seat->next_owner;
        }
    }
}

/* Sends the collected dispatches to the workers. */
static void send_collected(struct cox_coordinator *c)
{
    while (c->closures->collected != NULL) {
        struct coxi_seat *seat = c->closures->collected;
        c->closures->collected = seat->next_collected;
        seat->is_collected = false;
        coxi_send_flush(seat);
    }
}

/* Assigns closures of `priority` or above that any worker may run. */
static void assign_any(struct cox_coordinator *c, struct coxi_queue *queue,
                       int8_t priority)
{
    size_t n_given = 1;
    uint32_t index;
    uint32_t room;
    while (n_given > 0 && queue->n > 0 &&
           coxi_pool_first(&c->closures->pool, &index, &room)) {
        size_t share = queue->n / c->workers->n;
        size_t chunk = share < 1 ? 1 : share < CHUNK_MAX ? share : CHUNK_MAX;
        n_given = give(c->workers->all[index]->seat, queue, priority,
                       chunk < room ? chunk : room);
    }
}

/*
 * Goes through the priorities from the highest down; within one, closures that only one
 * worker may run come first. If a closure is left over, no worker has room, so closures
 * of lower priority are not tried.
 */
static void assign_by_priority(struct cox_coordinator *c)
{
    const struct coxi_closure *closure;
    int8_t above = COX_PRIORITY_MAX + 1;
    while ((closure = coxi_queue_first(&c->closures->queue)) != NULL &&
           closure->asked.priority < above) {
        above = closure->asked.priority;
        assign_own(c, above);
        assign_any(c, &c->closures->queue, above);
    }
    if (closure == NULL) {
        assign_own(c, COX_PRIORITY_MIN);
    }
}

/*
 * While ps are recovered, only the current batch of the replay is dispatched: any other
 * step would read values that are only partly restored, or overtake a write of the
 * client that must still be repeated.
 */
static void assign(struct cox_coordinator *c)
{
    bool recovery = atomic_load(&c->ps.under_way);
    if (!recovery || coxi_ps_replaying(c)) {
        assign_any(c, &c->closures->replay_queue, COX_PRIORITY_MIN);
    }
    if (!recovery) {
        assign_any(c, &c->closures->remake_queue, COX_PRIORITY_MIN);
        do {
            assign_by_priority(c);
        } while (coxi_rounds_begin_ahead(c));
    }
    send_collected(c);
}

/* ---- a turn of the loop */

/* Queues a closure that was given its id, or lets it wait for its inputs. */
static void enter(struct coxi_closure *closure)
{
    const struct coxi_gate *gate = atomic_load(&closure->future.c->closures->gate);
    if (gate != NULL && gate->holds(closure)) {
        return; /* it waits for a write of the older client */
    }
    if (closure->round != NULL && coxi_round_holds(closure)) {
        return; /* it waits for earlier rounds; or it is the end of one */
    }
    if (closure->inputs != NULL) {
        coxi_inputs_wait(closure);
    } else {
        coxi_closure_enqueue(closure, false);
    }
}

/*
 * Takes in the ids of operations below `end`. If there is no memory for one, the run is
 * over: a watermark could pass the operation, and the ps would treat it as a duplicate.
 */
static void take_operations(struct cox_coordinator *c, struct coxi_intake *intake,
                            uint64_t end)
{
    while (intake->operations != NULL && intake->operations->id.n < end) {
        int r = coxi_closures_put_operation(c, intake->operations->id);
        if (r != 0) {
            coxi_fatal(c, r, "out of memory for an operation");
        }
        intake->operations = intake->operations->next;
    }
}

/* Takes closures and operations from the intake, in the order of ids. True if there
 * were any. */
static bool take_in(struct cox_coordinator *c, struct coxi_intake *intake)
{
    bool any = intake->closures.first != NULL;
    for (struct coxi_closure *closure = intake->closures.first; closure != NULL;) {
        struct coxi_closure *next = closure->next;
        take_operations(c, intake, closure->future.id.n);
        if (closure->round != NULL) {
            coxi_round_take_in(closure);
        }
        if (coxi_window_put(&c->closures->unsettled, closure->future.id.n, closure) ==
            0) {
            enter(closure);
        } else {
            /* The closure cannot be tracked, so it cannot run. */
            coxi_closure_fail(closure, COX_ENOMEM, "out of memory for a closure");
        }
        closure = next;
    }
    take_operations(c, intake, UINT64_MAX);
    return any;
}

void coxi_dispatch_go_on(struct cox_coordinator *c)
{
    struct coxi_closures *closures = c->closures;
    do {
        if (closures->rounds.n_open > 0) {
            coxi_rounds_turn(c);
        }
        if (closures->inputs_settled != NULL || closures->begun != NULL) {
            coxi_inputs_go_on(c);
        }
    } while (closures->rounds.due != NULL);
}

/* Sends ps the ends of rounds, and asks them about voided closures. */
static void send_ends(struct cox_coordinator *c)
{
    if (c->closures->voids_held) {
        coxi_voidings_flush(c);
    }
}

/* Sends ps and workers this turn's decisions about closures that are not plain. */
static void send_decisions(struct cox_coordinator *c)
{
    send_ends(c);
    if (c->closures->droppers != NULL) {
        coxi_kept_flush(c);
    }
}

/* Lets the next write of an older client begin if its turn has come. */
static void turn_gate(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    if (gate != NULL) {
        gate->turn(c);
    }
}

/* Sends the watermark when it has moved far enough; soon when nothing is under way; and
 * from time to time, because a message may be lost. */
static void send_watermark(struct cox_coordinator *c)
{
    uint64_t first = c->closures->unsettled.first;
    uint64_t moved = first - 1 - c->closures->watermark_sent;
    bool idle = c->closures->unsettled.count == 0 && moved > 0;
    uint64_t ms = coxi_now_ms() - c->closures->watermark_sent_ms;
    if (moved < WATERMARK_STEP &&
        (first == 1 || ms < (idle ? COXI_TICK_MS : WATERMARK_MS))) {
        return;
    }
    c->closures->watermark_sent = first - 1;
    c->closures->watermark_sent_ms = coxi_now_ms();
    struct coxi_message message = {.kind = COXI_WATERMARK};
    message.watermark.session = c->session;
    for (uint32_t i = 0; i < c->ps.n; i++) {
        message.watermark.watermark =
            coxi_ps_watermark(c, i, c->closures->watermark_sent);
        message.watermark.incarnation = coxi_psc_incarnation(c->ps.clients[i]);
        coxi_psc_tell(c->ps.clients[i], &message);
    }
}

/* Cancels all attempts of all workers, running ones too. A closure with a task is put
 * back into the queue, and then cancelled or spared (settle.c). */
static void cancel_attempts(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->workers->n; i++) {
        struct coxi_closure *closure = c->workers->all[i]->seat->in_flight.first;
        for (; closure != NULL; closure = closure->next) {
            closure->attempts.cancelled =
                closure->attempts.cancelled ||
                (closure->rerun == NULL && !closure->effect.applied &&
                 !closure->older.inherited && closure->task == NULL) ||
                c->phase.closing || c->phase.fatal_handled;
        }
        recall_all(c->workers->all[i]->seat, true);
    }
}

/* Cancels everything. Running attempts are recalled only once for the same reason. */
static void cancel(struct cox_coordinator *c, int code, const char *text)
{
    coxi_closures_fail(c, code, text);
    if (!c->closures->recalled) {
        c->closures->recalled = true;
        cancel_attempts(c);
    }
}

/* If `wanted`: releases all workers and ps, and stops the loop when none is left. */
static void shut_down(struct cox_coordinator *c, bool wanted)
{
    if (wanted && !c->phase.shutting_down) {
        c->phase.shutting_down = true;
        coxi_workers_shutdown(c);
        for (uint32_t i = 0; i < c->ps.n; i++) {
            coxi_psc_give_up(c->ps.clients[i], "the coordinator is being closed");
        }
    }
    if (c->phase.shutting_down && c->workers->n_conns == 0 &&
        c->closures->n_voiding == 0) {
        coxi_closures_fail(c, COX_ECANCELLED, "the coordinator was closed");
        coxi_dispatch_go_on(c);
        coxi_closures_tell(c);
        coxi_loop_stop(c->loop);
    }
}

void coxi_dispatch(void *coordinator)
{
    struct cox_coordinator *c = coordinator;
    char fatal_text[COXI_TEXT_MAX];
    coxi_lock(&c->lock);
    struct coxi_intake intake = c->closures->intake;
    c->closures->intake = (struct coxi_intake){0};
    bool layout = c->workers->layout_due;
    c->workers->layout_due = false;
    int fatal = c->life.fatal;
    if (fatal != 0) {
        memcpy(fatal_text, c->life.fatal_text, sizeof(fatal_text));
    }
    bool stopping = c->life.reporting || c->life.closing;
    c->phase.closing = c->life.closing;
    bool shutdown = c->life.shutdown;
    bool modules = c->modules->n > c->workers->n_shipped;
    bool variables = c->announced.n > c->workers->n_layout;
    bool kept = c->closures->kept_listed != NULL;
    bool resources = c->resources->changed;
    c->resources->changed = false;
    coxi_unlock(&c->lock);

    bool closures = take_in(c, &intake);
    coxi_dispatch_go_on(c);
    send_ends(c);
    if (kept) {
        coxi_kept_sweep(c);
    }
    if (layout || (fatal != 0 && !c->phase.fatal_handled)) {
        c->phase.fatal_handled = fatal != 0;
        coxi_layout_send_all(c);
    } else if (closures && variables) {
        coxi_layout_update(c);
    }
    if (modules) {
        coxi_workers_modules(c);
    }
    if (resources) { /* workers make them before closures that were scheduled later */
        coxi_workers_resources(c);
    }
    if (fatal != 0) {
        cancel(c, fatal, fatal_text);
    } else if (stopping) {
        cancel(c, COX_ECANCELLED, "cancelled");
        if (!shutdown) {
            assign(c); /* dispatches closures that an error has spared */
        }
    } else {
        c->closures->recalled = false;
        assign(c);
    }
    coxi_dispatch_go_on(c); /* for closures whose inputs were just cancelled */
    coxi_closures_tell(c);
    send_decisions(c);
    send_watermark(c);
    turn_gate(c);
    shut_down(c, shutdown);
}
