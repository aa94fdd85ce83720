/*
 * See slots.h. A closure that must run alone begins when nothing else runs. While it
 * runs nothing begins, not even the making of a resource. A dispatch is one batch
 * (worker/batch.h). The line has one lock; a slot takes one closure at a time.
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
#include "worker/culprit.h"
#include "worker/execute.h"
#include "worker/slots_internal.h"

enum {
    SLOTS_MAX = COXI_RECORDER_MAX,
    WAITING_MAX = 1 << 20, /* closures; the client sends a fraction of that */
    LONG_US = 200, /* a closure that may take longer does not keep others waiting */
};

/* ---- the line */

/*
 * Puts the batch in line. COX_EFENCED; COX_ECANCELLED: the slots are stopped.
 */
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

/* Frees batches that are out of the line; `answer`: reports their closures as
 * cancelled. */
static void hand_back(struct coxi_batch *batch, bool answer)
{
    while (batch != NULL) {
        struct coxi_batch *next = batch->next;
        size_t left = batch->n - batch->n_taken;
        for (size_t i = batch->n_taken; answer && i < batch->n; i++) {
            coxi_execute_cancelled(batch->run, batch->heads[i].closure,
                                   batch->heads[i].attempt);
        }
        if (answer) {
            coxi_run_flush(batch->run);
        }
        coxi_batch_done(batch, left);
        batch = next;
    }
}

int coxi_slots_push(struct coxi_slots *slots, struct coxi_run *run,
                    const struct coxi_dispatch *dispatch, const void *payload,
                    size_t len)
{
    struct coxi_batch *batch = NULL;
    if (dispatch->grace_ms > 0) {
        atomic_store(&run->grace_ms, dispatch->grace_ms);
    }
    /* the same in every dispatch that has closures */
    atomic_store(&run->first, dispatch->first);
    if (dispatch->n_closures == 0) {
        return 0;
    }
    int r = coxi_batch_new(run, dispatch, payload, len, &batch);
    if (r != 0) {
        return r;
    }
    coxi_lock(&slots->lock);
    r = enqueue(slots, batch);
    coxi_unlock(&slots->lock);
    if (r != 0) {
        hand_back(batch, r == COX_ECANCELLED);
    }
    return r == COX_ECANCELLED ? 0 : r;
}

/* ---- recalls */

/* Takes the batches of `run` (NULL: of all) out of the line. */
static struct coxi_batch *unlink_run(struct coxi_slots *slots,
                                     const struct coxi_run *run)
    COXI_REQUIRES(slots->lock)
{
    struct coxi_batch *taken = NULL;
    slots->last = NULL;
    for (struct coxi_batch **at = &slots->first; *at != NULL;) {
        struct coxi_batch *batch = *at;
        if (run != NULL && batch->run != run) {
            slots->last = batch;
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        slots->n_waiting -= batch->n - batch->n_taken;
        batch->next = taken;
        taken = batch;
    }
    return taken;
}

static int compare_heads(const void *a, const void *b)
{
    const struct coxi_recall_head *x = a;
    const struct coxi_recall_head *y = b;
    if (x->closure != y->closure) {
        return x->closure < y->closure ? -1 : 1;
    }
    return (x->attempt > y->attempt) - (x->attempt < y->attempt);
}

/* The attempts that are wanted back: all of a run, or those of a sorted list. */
struct wanted {
    const struct coxi_run *run;
    bool all; /* all closures of the run */
    /* the client is gone: also the making of resources */
    bool gone;
    struct coxi_recall_head *heads; /* `unused`: 1 if it was taken out of the line */
    size_t n;
};

static struct coxi_recall_head *find(const struct wanted *wanted,
                                     const struct coxi_closure_head *head)
{
    const struct coxi_recall_head key = {head->closure, head->attempt, 0};
    return wanted->n == 0
               ? NULL
               : bsearch(&key, wanted->heads, wanted->n, sizeof(key), compare_heads);
}

static int wanted_init(struct wanted *wanted, const struct coxi_run *run,
                       const struct coxi_recall *recall)
{
    *wanted = (struct wanted){.run = run, .all = recall->all};
    size_t n = recall->all ? 0 : recall->n_closures;
    if (n == 0) {
        return 0;
    }
    wanted->heads = malloc(n * sizeof(*wanted->heads));
    if (wanted->heads == NULL) {
        return coxi_error_memory("a recall");
    }
    for (size_t i = 0; i < n; i++) {
        wanted->heads[i] = (struct coxi_recall_head){recall->closures[i].closure,
                                                     recall->closures[i].attempt, 0};
    }
    wanted->n = n;
    qsort(wanted->heads, n, sizeof(*wanted->heads), compare_heads);
    return 0;
}

/* Takes what is wanted out of a batch, whose other closures move up; returns how many. */
static size_t thin_out(struct coxi_slots *slots, struct coxi_batch *batch,
                       const struct wanted *wanted) COXI_REQUIRES(slots->lock)
{
    size_t kept = batch->n_taken;
    for (size_t i = batch->n_taken; i < batch->n; i++) {
        struct coxi_recall_head *head = find(wanted, &batch->heads[i]);
        if (head != NULL && head->unused == 0) {
            head->unused = 1;
            continue;
        }
        batch->heads[kept] = batch->heads[i];
        batch->calls[kept] = batch->calls[i];
        kept++;
    }
    size_t n_gone = batch->n - kept;
    batch->n = kept;
    slots->n_waiting -= n_gone;
    return n_gone;
}

/* Takes the listed attempts out of the line. */
static void unlink_listed(struct coxi_slots *slots, const struct wanted *wanted)
    COXI_REQUIRES(slots->lock)
{
    slots->last = NULL;
    for (struct coxi_batch **at = &slots->first; *at != NULL;) {
        struct coxi_batch *batch = *at;
        size_t n_gone = batch->run == wanted->run ? thin_out(slots, batch, wanted) : 0;
        if (batch->n > batch->n_taken) {
            (void)atomic_fetch_sub(&batch->n_left, n_gone); /* others are left in it */
            slots->last = batch;
            at = &batch->next;
        } else {
            *at = batch->next;
            coxi_batch_done(batch, n_gone);
        }
    }
}

/* The making of a resource has closure 0. It is cancelled if the client is gone or a
 * recall lists it, but not by a recall of all closures. */
static bool is_wanted(const struct wanted *wanted, const struct coxi_closure_head *head)
{
    return wanted->gone || (wanted->all && head->closure != 0) ||
           find(wanted, head) != NULL;
}

/* Cancels the wanted attempts that run. */
static void cancel_running(struct coxi_slots *slots, const struct wanted *wanted,
                           uint32_t grace_ms) COXI_REQUIRES(slots->lock)
{
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        struct coxi_running *running = &slots->threads[i].running;
        if (atomic_load(&running->state) != COXI_RUN_IDLE &&
            running->run == wanted->run && is_wanted(wanted, &running->head)) {
            coxi_watch_cancel(slots, running, COXI_RUN_CANCELLED, grace_ms);
        }
    }
}

int coxi_slots_recall(struct coxi_slots *slots, struct coxi_run *run,
                      const struct coxi_recall *recall)
{
    struct wanted wanted;
    struct coxi_batch *batches = NULL;
    int r = wanted_init(&wanted, run, recall);
    if (r != 0) {
        return r;
    }
    if (recall->grace_ms > 0) {
        atomic_store(&run->grace_ms, recall->grace_ms);
    }
    coxi_lock(&slots->lock);
    if (recall->all) {
        batches = unlink_run(slots, run);
    } else {
        unlink_listed(slots, &wanted);
    }
    /* the closure that is first now may be able to begin */
    (void)pthread_cond_broadcast(&slots->work);
    if (recall->running) {
        cancel_running(slots, &wanted, atomic_load(&run->grace_ms));
    }
    coxi_unlock(&slots->lock);
    hand_back(batches, true);
    for (size_t i = 0; i < wanted.n; i++) {
        if (wanted.heads[i].unused != 0) {
            coxi_execute_cancelled(run, wanted.heads[i].closure,
                                   wanted.heads[i].attempt);
        }
    }
    free(wanted.heads);
    coxi_run_flush(run);
    return 0;
}

/* ---- resources */

void coxi_slots_tend(struct coxi_slots *slots, struct coxi_run *run)
{
    coxi_lock(&slots->lock);
    /* A run that a slot tends at this moment is not in line. It is put in line again,
     * because that slot may not have seen this change. */
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

void coxi_slots_drop(struct coxi_slots *slots, struct coxi_run *run)
{
    const struct wanted all = {.run = run, .gone = true};
    coxi_lock(&slots->lock);
    struct coxi_batch *batches = unlink_run(slots, run);
    (void)pthread_cond_broadcast(&slots->work);
    cancel_running(slots, &all, atomic_load(&run->grace_ms));
    coxi_unlock(&slots->lock);
    hand_back(batches, false);
    coxi_slots_tend(slots, run);
}

/* The first run in line, with its reference, or NULL. */
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

/* True if the first closure in line may begin now. */
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
    while (!slots->stop && (slots->tended != NULL || !may_take(slots))) {
        struct coxi_run *run = slots->alone ? NULL : take_tended(slots);
        if (run != NULL) {
            tend(slots, slot, run);
        } else {
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

/*
 * True if the next closure in line belongs to `run` and is known to be short.
 */
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
    int r = coxi_watch_init(slots);
    for (uint32_t i = 0; r == 0 && i < options->n; i++) {
        struct coxi_slot *slot = &slots->threads[i];
        slot->slots = slots;
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

bool coxi_slots_stop(struct coxi_slots *slots)
{
    coxi_lock(&slots->lock);
    slots->stop = true;
    bool idle = slots->n_running == 0;
    struct coxi_batch *batches = unlink_run(slots, NULL);
    (void)pthread_cond_broadcast(&slots->work);
    cancel_makings(slots);
    struct coxi_run *run = take_tended(slots);
    coxi_unlock(&slots->lock);
    hand_back(batches, true);
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
