/*
 * See slots.h. A dispatch is one block of memory (struct batch, its closures, their
 * arguments), freed when its last closure has run. One lock for the line; a slot takes
 * one closure at a time.
 *
 * Results and commits wait for company while the next closure is at hand and known to
 * be short; before a long or unknown one, and before a slot goes idle, everything is
 * flushed.
 */
#include "worker/slots.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "worker/attempt.h"

enum {
    SLOTS_MAX = COXI_RECORDER_MAX,
    WAITING_MAX = 1 << 20, /* closures; the client sends a fraction of it */
    LONG_US = 200, /* a closure that may take longer does not keep others waiting */
};

struct batch {
    struct batch *next;
    struct coxi_run *run;
    size_t n;
    size_t n_taken;
    atomic_size_t n_left; /* not yet run */
    const uint8_t **args;
    struct coxi_closure_head heads[];
};

struct slot {
    struct coxi_slots *slots;
    struct coxi_recorder_slot *recorder; /* or NULL */
    pthread_t thread;
};

struct coxi_slots {
    pthread_mutex_t lock; /* guards all below; comes before a run's locks */
    pthread_cond_t work;
    struct batch *first;
    struct batch *last;
    size_t n_waiting;
    uint32_t n_running;
    bool stop;
    uint32_t n_threads;
    struct slot threads[];
};

/* ---- batches */

static void batch_done(struct batch *batch, size_t n)
{
    if (n > 0 && atomic_fetch_sub(&batch->n_left, n) == n) {
        coxi_run_unref(batch->run);
        free(batch);
    }
}

static int batch_new(struct coxi_run *run, const struct coxi_dispatch *dispatch,
                     const void *payload, size_t len, struct batch **ret)
{
    size_t n = dispatch->n_closures;
    size_t heads_len = n * sizeof(struct coxi_closure_head);
    struct batch *batch = malloc(sizeof(*batch) + heads_len + n * sizeof(void *) + len);
    if (batch == NULL) {
        return coxi_error_memory("closures");
    }
    memcpy(batch->heads, dispatch->closures, heads_len);
    batch->args = (const uint8_t **)(void *)((uint8_t *)batch->heads + heads_len);
    uint8_t *args = (uint8_t *)(batch->args + n);
    if (len > 0) {
        memcpy(args, payload, len);
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        batch->args[i] = args + at;
        at += coxi_align(batch->heads[i].args_len, 8);
    }
    if (at != len) {
        free(batch);
        return coxi_error(COX_EPROTO, "arguments of %zu bytes in a payload of %zu", at,
                          len);
    }
    batch->next = NULL;
    batch->run = coxi_run_ref(run);
    batch->n = n;
    batch->n_taken = 0;
    atomic_init(&batch->n_left, n);
    *ret = batch;
    return 0;
}

int coxi_slots_push(struct coxi_slots *slots, struct coxi_run *run,
                    const struct coxi_dispatch *dispatch, const void *payload,
                    size_t len)
{
    struct batch *batch = NULL;
    if (dispatch->n_closures == 0) {
        return 0;
    }
    int r = batch_new(run, dispatch, payload, len, &batch);
    if (r != 0) {
        return r;
    }
    coxi_lock(&slots->lock);
    if (slots->n_waiting + batch->n > WAITING_MAX) {
        r = coxi_error(COX_EPROTO, "more than %d closures in line", WAITING_MAX);
    } else {
        if (slots->last != NULL) {
            slots->last->next = batch;
        } else {
            slots->first = batch;
        }
        slots->last = batch;
        slots->n_waiting += batch->n;
        (void)pthread_cond_broadcast(&slots->work);
    }
    coxi_unlock(&slots->lock);
    if (r != 0) {
        batch_done(batch, batch->n);
    }
    return r;
}

/* Takes the run's batches out of the line. Locked. */
static struct batch *unlink_run(struct coxi_slots *slots, const struct coxi_run *run)
{
    struct batch *taken = NULL;
    slots->last = NULL;
    for (struct batch **at = &slots->first; *at != NULL;) {
        struct batch *batch = *at;
        if (batch->run != run) {
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

void coxi_slots_recall(struct coxi_slots *slots, struct coxi_run *run, bool answer)
{
    coxi_lock(&slots->lock);
    struct batch *batch = unlink_run(slots, run);
    coxi_unlock(&slots->lock);
    while (batch != NULL) {
        struct batch *next = batch->next;
        size_t left = batch->n - batch->n_taken;
        for (size_t i = batch->n_taken; answer && i < batch->n; i++) {
            coxi_attempt_cancel(run, &batch->heads[i]);
        }
        batch_done(batch, left);
        batch = next;
    }
    coxi_run_flush(run);
}

/* ---- slots */

/* The next closure, or false at the end. Locked on entry and return. */
static bool take(struct coxi_slots *slots, struct batch **ret, size_t *ret_i)
{
    while (slots->first == NULL && !slots->stop) {
        (void)pthread_cond_wait(&slots->work, &slots->lock);
    }
    if (slots->stop) {
        return false;
    }
    struct batch *batch = slots->first;
    *ret = batch;
    *ret_i = batch->n_taken++;
    slots->n_waiting--;
    if (batch->n_taken == batch->n) {
        slots->first = batch->next;
        if (slots->first == NULL) {
            slots->last = NULL;
        }
    }
    return true;
}

/* True where the next in line belongs to `run` and is known to be short. Locked. */
static bool next_is_short(const struct coxi_slots *slots, struct coxi_run *run)
{
    if (slots->stop || slots->first == NULL || slots->first->run != run) {
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
    const struct slot *slot = arg;
    struct coxi_slots *slots = slot->slots;
    struct batch *batch;
    size_t i;
    coxi_lock(&slots->lock);
    while (take(slots, &batch, &i)) {
        struct coxi_run *run = coxi_run_ref(batch->run);
        slots->n_running++;
        coxi_unlock(&slots->lock);
        (void)coxi_attempt_run(run, slot->recorder, &batch->heads[i], batch->args[i],
                               batch->heads[i].args_len);
        batch_done(batch, 1);
        coxi_lock(&slots->lock);
        bool flush = !next_is_short(slots, run);
        coxi_unlock(&slots->lock);
        if (flush) {
            coxi_run_flush(run);
        }
        coxi_run_unref(run);
        coxi_lock(&slots->lock);
        slots->n_running--;
    }
    coxi_unlock(&slots->lock);
    return NULL;
}

int coxi_slots_new(uint32_t n, struct coxi_recorder *recorder, struct coxi_slots **ret)
{
    if (n == 0 || n > SLOTS_MAX) {
        return coxi_error(COX_EINVAL, "%u slots: 1 to %d are possible", n, SLOTS_MAX);
    }
    struct coxi_slots *slots = calloc(1, sizeof(*slots) + n * sizeof(*slots->threads));
    if (slots == NULL) {
        return coxi_error_memory("slots");
    }
    (void)pthread_mutex_init(&slots->lock, NULL);
    coxi_cond_init(&slots->work);
    for (uint32_t i = 0; i < n; i++) {
        struct slot *slot = &slots->threads[i];
        slot->slots = slots;
        slot->recorder = coxi_recorder_slot(recorder, i);
        int r = coxi_thread_start(&slot->thread, "cox:slot", slot_thread, slot);
        if (r != 0) {
            coxi_slots_free(slots);
            return r;
        }
        slots->n_threads++;
    }
    *ret = slots;
    return 0;
}

bool coxi_slots_stop(struct coxi_slots *slots)
{
    coxi_lock(&slots->lock);
    slots->stop = true;
    bool idle = slots->n_running == 0;
    (void)pthread_cond_broadcast(&slots->work);
    coxi_unlock(&slots->lock);
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
    while (slots->first != NULL) {
        struct batch *batch = slots->first;
        slots->first = batch->next;
        batch_done(batch, batch->n - batch->n_taken);
    }
    (void)pthread_cond_destroy(&slots->work);
    (void)pthread_mutex_destroy(&slots->lock);
    free(slots);
}
