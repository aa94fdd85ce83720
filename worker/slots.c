/*
 * See slots.h. A closure that must run alone begins when nothing else runs. While it
 * runs nothing begins, not even the making of a resource. A dispatch is one batch. The
 * line has one lock; a slot takes one closure at a time. slots_recall.c takes closures
 * out of the line.
 *
 * Results and commits wait, to be sent together, while the next closure is at hand and
 * known to be short. Before a long or unknown one, and before a slot goes idle,
 * everything is sent.
 */
#include "worker/slots.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "common/trace.h"
#include "worker/culprit.h"
#include "worker/execute.h"
#include "worker/slots_internal.h"

enum {
    SLOTS_MAX = COXI_RECORDER_MAX,
    WAITING_MAX = 1 << 20, /* closures; the client sends a fraction of that */
    LONG_US = 200, /* a closure that may take longer does not keep others waiting */
};

/* ---- batches */

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

/* Gives each call its kept inputs, which are stored in `taken` and `names`, and the
 * rest that the dispatch says of it. */
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
    for (size_t i = 0; dispatch->rounds != NULL && i < batch->n; i++) {
        batch->calls[i].round = dispatch->rounds[i];
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

/* Copies heads, inputs and arguments. The batch has a reference of `run`. COX_EPROTO:
 * they are malformed, or do not fit the payload. COX_ENOMEM. */
static int batch_new(struct coxi_run *run, const struct coxi_dispatch *dispatch,
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

/* ---- the line */

/* Queues the batch. COX_EFENCED; COX_ECANCELLED: the slots are stopped. */
static int enqueue(struct coxi_slots *slots, struct coxi_batch *batch)
    COXI_REQUIRES(slots->lock)
{
    if (atomic_load(&batch->run->closed)) {
        return coxi_error(COX_EFENCED, "another client has taken over");
    }
    if (slots->stop) {
        return COX_ECANCELLED;
    }
    if (slots->n_waiting + batch->n > WAITING_MAX) {
        return coxi_error(COX_EPROTO, "more than %d closures in line", WAITING_MAX);
    }
    if (slots->last != NULL) {
        slots->last->next = batch;
    } else {
        slots->first = batch;
    }
    slots->last = batch;
    slots->n_waiting += batch->n;
    (void)pthread_cond_broadcast(&slots->work);
    return 0;
}

int coxi_slots_push(struct coxi_slots *slots, struct coxi_run *run,
                    const struct coxi_dispatch *dispatch, const void *payload,
                    size_t len)
{
    struct coxi_batch *batch = NULL;
    if (dispatch->grace_ms > 0) {
        atomic_store(&run->grace_ms, dispatch->grace_ms);
    }
    /* `first` is the same in every dispatch that has closures */
    atomic_store(&run->first, dispatch->first);
    if (dispatch->n_closures == 0) {
        return 0;
    }
    int r = batch_new(run, dispatch, payload, len, &batch);
    if (r != 0) {
        return r;
    }
    coxi_lock(&slots->lock);
    r = enqueue(slots, batch);
    coxi_unlock(&slots->lock);
    if (r != 0) {
        coxi_slots_hand_back(batch, r == COX_ECANCELLED);
    }
    return r == COX_ECANCELLED ? 0 : r;
}

/* ---- resources */

void coxi_slots_tend(struct coxi_slots *slots, struct coxi_run *run)
{
    coxi_lock(&slots->lock);
    /* A run that a slot tends at this moment is not queued. It is queued again, because
     * that slot may not have seen this change. */
    if (!run->tended && !slots->stop && coxi_resources_wait(&run->resources)) {
        struct coxi_run **end = &slots->tended;
        while (*end != NULL) {
            end = &(*end)->next_tended;
        }
        *end = coxi_run_ref(run);
        run->next_tended = NULL;
        run->tended = true;
        (void)pthread_cond_broadcast(&slots->work);
    }
    coxi_unlock(&slots->lock);
}

/* The first queued run, with its reference, or NULL. */
static struct coxi_run *take_tended(struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    struct coxi_run *run = slots->tended;
    if (run != NULL) {
        slots->tended = run->next_tended;
        run->tended = false;
    }
    return run;
}

/* Notes that the slot runs what `head` says. */
static void begin(struct coxi_slots *slots, struct coxi_running *running,
                  struct coxi_run *run, const struct coxi_closure_head *head,
                  uint64_t layouts, uint32_t grace_ms) COXI_REQUIRES(slots->lock)
{
    running->run = run;
    running->head = *head;
    running->layouts = layouts;
    running->grace_ms = grace_ms;
    running->overran = false;
    atomic_store_explicit(&running->started_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&running->state, COXI_RUN_RUNNING, memory_order_relaxed);
    coxi_watch_begin(slots, running);
}

/* The slot has finished what it ran. */
static void end_running(struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    slots->n_running--;
    if (slots->n_running == 0) {
        slots->alone = false;
        (void)pthread_cond_broadcast(&slots->work);
    }
}

/* Releases resources of the run, and makes the next one. Unlocks meanwhile. */
static void tend(struct coxi_slots *slots, struct coxi_slot *slot, struct coxi_run *run)
    COXI_REQUIRES(slots->lock)
{
    slots->n_running++;
    coxi_unlock(&slots->lock);
    struct coxi_kept *kept = coxi_resources_tend(&run->resources);
    if (kept != NULL) {
        coxi_lock(&slots->lock);
        begin(slots, &slot->running, run, &kept->head, kept->layouts,
              atomic_load(&run->grace_ms));
        if (slots->stop || coxi_resources_dropped(&run->resources, kept)) {
            /* It was dropped before others could see it run, so nobody else will cancel
             * it. */
            atomic_store(&slot->running.state, COXI_RUN_CANCELLED);
        }
        coxi_unlock(&slots->lock);
        coxi_execute_resource(run, &slot->running, kept);
    }
    coxi_slots_tend(slots, run);
    coxi_run_unref(run);
    coxi_lock(&slots->lock);
    end_running(slots);
}

/* ---- slots */

static bool is_first_alone(const struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    const struct coxi_batch *first = slots->first;
    return first != NULL && first->calls[first->n_taken].alone;
}

/* True if the first queued closure may begin now. */
static bool may_take(const struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    return slots->first != NULL && !slots->alone &&
           (slots->n_running == 0 || !is_first_alone(slots));
}

/* Takes the next closure, and notes that it runs; false: the slots are stopped. */
static bool take(struct coxi_slot *slot, struct coxi_batch **ret, size_t *ret_i)
    COXI_REQUIRES(slot->slots->lock)
{
    struct coxi_slots *slots = slot->slots;
    slot->running.waited = false;
    while (!slots->stop && (slots->tended != NULL || !may_take(slots))) {
        struct coxi_run *run = slots->alone ? NULL : take_tended(slots);
        if (run != NULL) {
            tend(slots, slot, run);
        } else {
            slot->running.waited = true;
            coxi_wait_for_work(&slots->work, &slots->lock);
        }
    }
    if (slots->stop) {
        return false;
    }
    struct coxi_batch *batch = slots->first;
    *ret = batch;
    slots->alone = is_first_alone(slots);
    *ret_i = batch->n_taken++;
    slots->n_waiting--;
    slots->n_running++;
    begin(slots, &slot->running, batch->run, &batch->heads[*ret_i], batch->layouts,
          batch->grace_ms);
    if (batch->n_taken == batch->n) {
        slots->first = batch->next;
        if (slots->first == NULL) {
            slots->last = NULL;
        }
    }
    return true;
}

/* True if the next queued closure belongs to `run` and is known to be short. */
static bool next_is_short(const struct coxi_slots *slots, struct coxi_run *run)
    COXI_REQUIRES(slots->lock)
{
    if (slots->stop || slots->tended != NULL || slots->first == NULL || slots->alone ||
        is_first_alone(slots) || slots->first->run != run) {
        return false;
    }
    struct coxi_function *function =
        coxi_run_function(run, &slots->first->heads[slots->first->n_taken]);
    unsigned average = function != NULL ? atomic_load_explicit(&function->average_us,
                                                               memory_order_relaxed)
                                        : 0;
    return average > 0 && average < LONG_US;
}

static void *slot_thread(void *arg)
{
    struct coxi_slot *slot = arg;
    struct coxi_slots *slots = slot->slots;
    struct coxi_batch *batch;
    struct coxi_culprit_stack stack;
    size_t i;
    coxi_culprit_begin(&stack, slot->running.recorder);
    coxi_trace_number_thread(slot->running.slot);
    coxi_lock(&slots->lock);
    while (take(slot, &batch, &i)) {
        struct coxi_run *run = coxi_run_ref(batch->run);
        coxi_unlock(&slots->lock);
        (void)coxi_execute_closure(run, &slot->running, &slot->running.head,
                                   &batch->calls[i]);
        coxi_batch_done(batch, 1);
        coxi_lock(&slots->lock);
        bool flush = !next_is_short(slots, run);
        coxi_unlock(&slots->lock);
        if (flush) {
            coxi_run_flush(run);
        }
        coxi_run_unref(run);
        coxi_lock(&slots->lock);
        end_running(slots);
    }
    coxi_unlock(&slots->lock);
    coxi_culprit_end(&stack);
    return NULL;
}

int coxi_slots_new(const struct coxi_slots_options *options, struct coxi_slots **ret)
{
    if (options->n == 0 || options->n > SLOTS_MAX) {
        return coxi_error(COX_EINVAL, "%u slots: 1 to %d are possible", options->n,
                          SLOTS_MAX);
    }
    struct coxi_slots *slots =
        calloc(1, sizeof(*slots) + options->n * sizeof(*slots->threads));
    if (slots == NULL) {
        return coxi_error_memory("slots");
    }
    slots->options = *options;
    coxi_mutex_init(&slots->lock);
    coxi_cond_init(&slots->work);
    for (uint32_t i = 0; i < options->n; i++) {
        coxi_mutex_init(&slots->threads[i].running.reading);
    }
    int r = coxi_watch_init(slots);
    for (uint32_t i = 0; r == 0 && i < options->n; i++) {
        struct coxi_slot *slot = &slots->threads[i];
        slot->slots = slots;
        slot->running.slot = i;
        slot->running.recorder = coxi_recorder_slot(options->recorder, i);
        r = coxi_thread_start(&slot->thread, "cox:slot", slot_thread, slot);
        slots->n_threads += r == 0 ? 1 : 0;
    }
    if (r != 0) {
        coxi_slots_free(slots);
        return r;
    }
    *ret = slots;
    return 0;
}

/* Cancels the making of resources, which nobody needs any more. A making that ignores
 * this is waited for, like a step, for at most its own timeout again. */
static void cancel_makings(struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        struct coxi_running *running = &slots->threads[i].running;
        uint32_t timeout_ms = running->head.timeout_ms;
        if (atomic_load(&running->state) == COXI_RUN_RUNNING &&
            running->head.closure == 0) {
            coxi_watch_cancel(slots, running, COXI_RUN_CANCELLED,
                              timeout_ms > 0 ? timeout_ms : COXI_WATCH_NEVER);
        }
    }
}

/* Slots take nothing more; coxi_slots_push hands back what comes. */
static void close_line(struct coxi_slots *slots) COXI_REQUIRES(slots->lock)
{
    slots->stop = true;
    (void)pthread_cond_broadcast(&slots->work);
}

void coxi_slots_close(struct coxi_slots *slots)
{
    coxi_lock(&slots->lock);
    close_line(slots);
    coxi_unlock(&slots->lock);
}

bool coxi_slots_stop(struct coxi_slots *slots)
{
    coxi_lock(&slots->lock);
    close_line(slots);
    bool idle = slots->n_running == 0;
    struct coxi_batch *batches = coxi_slots_unlink(slots, NULL);
    cancel_makings(slots);
    struct coxi_run *run = take_tended(slots);
    coxi_unlock(&slots->lock);
    coxi_slots_hand_back(batches, true);
    /* no run comes any more; resources that are left are freed with their run */
    while (run != NULL) {
        coxi_run_unref(run);
        coxi_lock(&slots->lock);
        run = take_tended(slots);
        coxi_unlock(&slots->lock);
    }
    return idle;
}

void coxi_slots_free(struct coxi_slots *slots)
{
    if (slots == NULL) {
        return;
    }
    (void)coxi_slots_stop(slots);
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        (void)pthread_join(slots->threads[i].thread, NULL);
    }
    coxi_watch_close(slots);
}
