/*
 * Takes closures out of the line of the slots: those that their client recalls, and all
 * closures of a run that ends. Cancels such closures if they run already.
 *
 * Threads: any.
 */
#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "worker/execute.h"
#include "worker/slots_internal.h"

void coxi_slots_hand_back(struct coxi_batch *batch, bool answer)
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

struct coxi_batch *coxi_slots_unlink(struct coxi_slots *slots,
                                     const struct coxi_run *run)
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

/* Takes what is wanted out of a batch, whose other closures move up; returns how
 * many. */
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
        batches = coxi_slots_unlink(slots, run);
    } else {
        unlink_listed(slots, &wanted);
    }
    /* the closure that is first now may be able to begin */
    (void)pthread_cond_broadcast(&slots->work);
    if (recall->running) {
        cancel_running(slots, &wanted, atomic_load(&run->grace_ms));
    }
    coxi_unlock(&slots->lock);
    coxi_slots_hand_back(batches, true);
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

void coxi_slots_drop(struct coxi_slots *slots, struct coxi_run *run)
{
    const struct wanted all = {.run = run, .gone = true};
    coxi_lock(&slots->lock);
    struct coxi_batch *batches = coxi_slots_unlink(slots, run);
    (void)pthread_cond_broadcast(&slots->work);
    cancel_running(slots, &all, atomic_load(&run->grace_ms));
    coxi_unlock(&slots->lock);
    coxi_slots_hand_back(batches, false);
    coxi_slots_tend(slots, run);
}

int coxi_slots_drop_resource(struct coxi_slots *slots, struct coxi_run *run,
                             const struct coxi_resource *dropped)
{
    const struct coxi_recall_head making = {.closure = 0, .attempt = dropped->id};
    if (dropped->until != 0) {
        coxi_resources_hide(&run->resources, dropped->id, dropped->until);
        return 0;
    }
    coxi_resources_drop(&run->resources, dropped->id);
    coxi_slots_tend(slots, run);
    return coxi_slots_recall(
        slots, run,
        &(struct coxi_recall){.closures = &making, .n_closures = 1, .running = true});
}
