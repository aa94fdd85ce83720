/*
 * The states of closures, and their end: what has ended in a turn of the loop is kept
 * until the turn is over, and told to the users' threads then, under one lock.
 *
 * Does not: decide that a closure ends (dispatch.c, attempts.c, inputs.c).
 *
 * Invariant: a closure is in c->closures->waiting (WAITING), in one queue (QUEUED), in the hands of
 * one worker (ASSIGNED), asked about (VOIDING) or settled; its state says which.
 *
 * Threads: loop. Cost: O(1) a closure.
 */
#include "coordinator/closures/settle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/future.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/queue.h"
#include "coordinator/closures/seat.h"
#include "coordinator/workers/module.h"

/* ---- who is in line where */

/* The only worker that may run it, or that has its inputs; or NULL. */
static struct coxi_seat *owner_of(const struct cox_future *f)
{
    uint32_t owner = f->home != 0 ? f->home : f->only_worker;
    return owner != 0 ? f->c->workers->all[owner - 1]->seat : NULL;
}

/* Where it stands in line: of the only worker that may run it, or of all. */
static struct coxi_queue *queue_of(const struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    if (f->replay != NULL) {
        return f->urgent ? &c->closures->replay_queue : &c->closures->remake_queue;
    }
    struct coxi_seat *owner = owner_of(f);
    return owner != NULL ? &owner->queue : &c->closures->queue;
}

void coxi_closure_enqueue(struct cox_future *f, bool first)
{
    struct cox_coordinator *c = f->c;
    struct coxi_seat *owner = owner_of(f);
    if (owner != NULL && !owner->is_owner) {
        owner->is_owner = true;
        owner->next_owner = c->closures->owners;
        c->closures->owners = owner;
    }
    if (first) {
        coxi_queue_prepend(queue_of(f), f);
    } else {
        coxi_queue_append(queue_of(f), f);
    }
    c->closures->n_queued++;
}

void coxi_closure_dequeue(struct cox_future *f)
{
    coxi_queue_remove(queue_of(f), f);
    f->c->closures->n_queued--;
}

void coxi_closure_set_urgent(struct cox_future *f, bool urgent)
{
    bool in_line = f->state == COXI_QUEUED;
    if (f->urgent == urgent) {
        return;
    }
    if (in_line) {
        coxi_closure_dequeue(f);
    }
    f->urgent = urgent;
    if (in_line) {
        coxi_closure_enqueue(f, false);
    } else if (urgent && f->state == COXI_WAITING) {
        coxi_inputs_hurry(f);
    }
}

/* ---- in the replay log */

uint64_t coxi_closure_logged_bytes(const struct cox_future *f)
{
    size_t args_len = 0;
    (void)coxi_inputs_args(f, &args_len);
    return sizeof(*f) + args_len + f->result_len;
}

void coxi_closure_forgotten(struct cox_future *f)
{
    atomic_store(&f->logged, false);
    coxi_kept_unlogged(f);
    coxi_future_unref(f);
}

int coxi_closure_log(struct coxi_replay_log *log, struct cox_future *f,
                     const uint32_t *touched, size_t n_touched)
{
    if (n_touched == 0) {
        return 0;
    }
    /* Before it is in the log, from which it may go at any moment. */
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    atomic_store(&f->logged, true);
    int r = coxi_replay_log_call(log, f->id, f, touched, n_touched);
    if (r != 0) {
        coxi_closure_forgotten(f);
    }
    return r;
}

/* An error has cancelled it, and the program may not have learned of that yet. */
static void note_cancelled(struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    coxi_lock(&c->lock);
    uint64_t first = c->closures->first_cancelled;
    /* Also when nobody waits any more for what still runs. */
    bool by_error = c->life.reporting || c->life.failed;
    if (by_error && f->cursor != 0 && (first == 0 || f->id < first)) {
        c->closures->first_cancelled = f->id;
    }
    coxi_unlock(&c->lock);
}

/* What a checkpoint, and a ps that comes back, have to know of a closure that is settled. */
static void record(struct coxi_replay_log *log, struct cox_future *f,
                   const struct coxi_ending *ending)
{
    struct cox_coordinator *c = f->c;
    int r = 0;
    if (f->id > c->closures->progress.closure) {
        c->closures->progress.closure = f->id;
    }
    if (f->state != COXI_CANCELLED || f->applied) {
        coxi_manifest_cover(&c->closures->progress, f->id, f->cursor);
    } else {
        note_cancelled(f);
    }
    if (f->state == COXI_DONE_OK || f->applied) {
        r = coxi_closure_log(log, f, ending->touched, ending->n_touched);
    } else if (f->attempt > 0) {
        r = coxi_replay_log_barred(log, f->id);
    }
    if (r != 0) {
        coxi_fatal(c, r, coxi_error_text());
    }
}

/* ---- the end of closures */

struct cox_future *coxi_closure_find(struct cox_coordinator *c, uint64_t id)
{
    struct cox_future *f = coxi_closures_get(c, id);
    return f != NULL ? f : coxi_window_get(&c->closures->replays, id);
}

struct cox_future *coxi_closure_find_running(struct cox_coordinator *c, uint64_t id)
{
    struct cox_future *f = coxi_closure_find(c, id);
    return f != NULL ? f : coxi_kept_find_remake(c, id);
}

static void tell_replayed(struct cox_future *f)
{
    const struct coxi_closure_events *events = f->c->closures->events;
    if (events != NULL) {
        events->replayed(f);
    }
}

void coxi_closure_settle(struct cox_future *f, const struct coxi_ending *ending)
{
    struct cox_coordinator *c = f->c;
    c->closures->n_voiding -= f->state == COXI_VOIDING;
    coxi_closure_set(f, ending->state);
    f->code = ending->code;
    char *text =
        ending->text != NULL && *ending->text != '\0' ? strdup(ending->text) : NULL;
    free(f->text);
    f->text = text;
    f->seat = NULL;
    if (f->replay != NULL) {
        tell_replayed(f); /* first: who needs it still may make it again */
        coxi_kept_remade(f);
    } else {
        (void)coxi_window_take(&c->closures->unsettled, f->id);
        struct coxi_replay_log *log = c->replay_log;
        if (log != NULL && !f->fetches) {
            record(log, f, ending);
        }
    }
    if (f->inputs != NULL || f->dependents != NULL) {
        coxi_inputs_settled(f);
    }
    if (f->kept != NULL) {
        coxi_kept_settled(f);
    }
    coxi_list_append(&c->closures->settling, f);
}

void coxi_closure_be_done(struct cox_future *f)
{
    f->c->closures
        ->waiting_change++; /* while it was held, it was not among those that wait */
    coxi_closure_set(f, COXI_DONE_OK);
    atomic_store(&f->settled, true);
    coxi_inputs_settled(f);
    coxi_kept_unwant(f);
    coxi_future_unref(f);
}

void coxi_closure_end(struct cox_future *f, const struct coxi_ending *ending)
{
    struct cox_coordinator *c = f->c;
    /* If the client is being closed, the next one goes on from the same checkpoint. */
    bool is_left = f->inherited && f->attempt == 0 && c->life.closing;
    if (!f->uncertain || f->replay != NULL || c->life.fatal_handled ||
        c->life.shutting_down || is_left) {
        coxi_closure_settle(f, ending); /* or nobody is left who could be asked */
        return;
    }
    coxi_closure_set(f, COXI_VOIDING);
    f->seat = NULL;
    c->closures->n_voiding++;
    if (coxi_voiding_start(c, f, ending) != 0) {
        struct coxi_ending failed = {COXI_FAILED, COX_ENOMEM, coxi_error_text(), NULL,
                                     0};
        coxi_closure_settle(f, &failed);
    }
}

void coxi_closure_fail(struct cox_future *f, int code, const char *text)
{
    coxi_closure_end(f, &(struct coxi_ending){COXI_FAILED, code, text, NULL, 0});
}

void coxi_closure_cancel(struct cox_future *f, const char *text)
{
    coxi_closure_end(
        f, &(struct coxi_ending){COXI_CANCELLED, COX_ECANCELLED, text, NULL, 0});
}

/* VOIDING -> in line, first. */
static void run_again(struct cox_future *f)
{
    f->c->closures->n_voiding--;
    free(f->result);
    f->result = NULL;
    f->result_len = 0;
    coxi_kept_void(f);
    if (f->cancelled) {
        coxi_closure_set(f, COXI_QUEUED);
        coxi_closure_cancel(f, "cancelled");
    } else {
        coxi_inputs_go_again(f);
    }
}

void coxi_closure_run_again(struct cox_future *f)
{
    f->applied = false;
    run_again(f);
}

void coxi_closure_run_for_results(struct cox_future *f)
{
    coxi_event(f->c, COX_EVENT_CLOSURE_AGAIN, COXI_OF(.closure = f->id),
               "closure %llu (%s) is applied, and runs again for its results",
               (unsigned long long)f->id, f->function->name);
    f->applied = true;
    f->cancelled = false; /* too late */
    f->losses = f->crashes = f->overruns = 0;
    run_again(f);
}

static void end_as(struct cox_future *f, int code, const char *text)
{
    if (code == COX_ECANCELLED) {
        coxi_closure_cancel(f, text);
    } else {
        coxi_closure_fail(f, code, text);
    }
}

/* An error that cancels everything does not mean it: it counts already, on some ps at least or
 * as an older client's, and what runs is only to be told, or to be done where it is missing. */
static bool is_spared(const struct cox_future *f, int code)
{
    struct cox_coordinator *c = f->c;
    return code == COX_ECANCELLED && !c->life.closing &&
           (f->applied || f->inherited || (f->urgent && coxi_ps_recovering(c)));
}

void coxi_closures_fail_queue(struct coxi_queue *queue, int code, const char *text)
{
    for (int i = 0; i < COXI_LEVELS; i++) {
        for (struct cox_future *f = queue->levels[i].first; f != NULL;) {
            struct cox_future *next = f->next;
            if (!is_spared(f, code)) {
                coxi_closure_dequeue(f);
                end_as(f, code, text);
            }
            f = next;
        }
    }
}

void coxi_closures_leave_home(struct coxi_seat *seat)
{
    for (int i = 0; i < COXI_LEVELS; i++) {
        for (struct cox_future *f = seat->queue.levels[i].first; f != NULL;) {
            struct cox_future *next = f->next;
            if (f->home != 0) {
                f->roams = true;
                coxi_closure_dequeue(f);
                coxi_inputs_put_back(f);
            }
            f = next;
        }
    }
}

void coxi_closures_fail(struct cox_coordinator *c, int code, const char *text)
{
    coxi_closures_fail_queue(&c->closures->queue, code, text);
    coxi_closures_fail_queue(&c->closures->remake_queue, code, text);
    coxi_closures_fail_queue(&c->closures->replay_queue, code, text);
    for (uint32_t i = 0; i < c->workers->n && c->closures->n_queued > 0; i++) {
        coxi_closures_fail_queue(&c->workers->all[i]->seat->queue, code, text);
    }
    for (struct cox_future *f = c->closures->waiting.first; f != NULL;) {
        struct cox_future *next = f->next;
        if (!is_spared(f, code)) {
            coxi_list_remove(&c->closures->waiting, f);
            end_as(f, code, text);
        }
        f = next;
    }
}

/* ---- telling the users */

/* A closure that failed or was cancelled, and whose future nobody holds: cox_close tells it if
 * no call does. Locked. */
static void note_untold(struct cox_coordinator *c, const struct cox_future *f)
{
    if (atomic_load(&f->refs) > 1) {
        return;
    }
    if (f->state == COXI_CANCELLED) {
        c->life.untold.cancelled++;
    } else if (c->life.untold.failed++ == 0) {
        c->life.untold.first = f->id;
        c->life.untold.code = f->code;
        (void)snprintf(c->life.untold.text, sizeof(c->life.untold.text),
                       "%.64s: %.400s", f->function->name,
                       f->text != NULL ? f->text : coxi_strerror(f->code));
    }
}

/* Counts one settled closure and wakes who waits for it. Locked. */
static void tell(struct cox_coordinator *c, struct cox_future *f)
{
    c->life.n_unsettled--;
    c->life.n_inherited -= f->inherited;
    if (f->replay != NULL) {
        return; /* nobody holds it */
    }
    coxi_future_settled(f);
    if (f->fetches) {
        return; /* who waits for it is told */
    }
    if (f->state == COXI_DONE_OK) {
        c->counts.stats.done++;
        return;
    }
    c->counts.stats.failed++;
    note_untold(c, f);
    if (f->state == COXI_FAILED && !c->options.keep_going) {
        char text[COXI_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "closure %llu (%s): %.400s",
                       (unsigned long long)f->id, f->function->name,
                       f->text != NULL ? f->text : coxi_strerror(f->code));
        coxi_note_error(c, f->code, text);
    }
}

void coxi_closures_tell(struct cox_coordinator *c)
{
    if (c->closures->settling.n == 0 && c->closures->waiting_change == 0) {
        return;
    }
    coxi_lock(&c->lock);
    c->life.n_waiting +=
        (size_t)c->closures->waiting_change; /* modulo 2^64: it may be negative */
    c->closures->waiting_change = 0;
    for (struct cox_future *f = c->closures->settling.first; f != NULL; f = f->next) {
        tell(c, f);
    }
    c->ids.first_unsettled = c->closures->unsettled.first;
    if (c->life.n_unsettled == 0 || c->life.n_unsettled == c->life.n_inherited) {
        (void)pthread_cond_broadcast(&c->life.idle);
    }
    (void)pthread_cond_broadcast(&c->life.room);
    coxi_unlock(&c->lock);
    for (struct cox_future *f = c->closures->settling.first; f != NULL;) {
        struct cox_future *next = f->next;
        coxi_future_unref(f);
        f = next;
    }
    c->closures->settling = (struct coxi_list){0};
}
