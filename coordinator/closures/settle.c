/*
 * The states of closures, and their end: closures that end in a turn of the loop are
 * collected until the turn is over, and then reported to user threads under one lock.
 *
 * Does not: decide that a closure ends (dispatch.c, attempts.c, inputs.c).
 *
 * Invariant: a closure is in c->closures->waiting (WAITING), in one queue (QUEUED),
 * with one worker (ASSIGNED), asked about (VOIDING) or settled; its state says which.
 *
 * Threads: loop. Cost: O(1) for each closure.
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
#include "coordinator/closures/futures.h"
#include "coordinator/closures/handout.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/logged.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/seat.h"
#include "coordinator/workers/module.h"

/* ---- queues */

/* The only worker that may run the closure, or that has its inputs; or NULL. */
static struct coxi_seat *owner_of(const struct coxi_closure *closure)
{
    return closure->home != NULL ? closure->home : closure->asked.only;
}

/* The queue in which the closure stands: of the only worker that may run it, or of
 * all. */
static struct coxi_queue *queue_of(const struct coxi_closure *closure)
{
    struct cox_coordinator *c = closure->future.c;
    if (closure->rerun != NULL) {
        return closure->rerun->urgent ? &c->closures->replay_queue
                                      : &c->closures->remake_queue;
    }
    struct coxi_seat *owner = owner_of(closure);
    return owner != NULL ? &owner->queue : &c->closures->queue;
}

void coxi_closure_enqueue(struct coxi_closure *closure, bool first)
{
    struct cox_coordinator *c = closure->future.c;
    struct coxi_seat *owner = owner_of(closure);
    if (owner != NULL && !owner->is_owner) {
        owner->is_owner = true;
        owner->next_owner = c->closures->owners;
        c->closures->owners = owner;
    }
    if (first) {
        coxi_queue_prepend(queue_of(closure), closure);
    } else {
        coxi_queue_append(queue_of(closure), closure);
    }
    c->closures->n_queued++;
}

void coxi_closure_dequeue(struct coxi_closure *closure)
{
    coxi_queue_remove(queue_of(closure), closure);
    closure->future.c->closures->n_queued--;
}

void coxi_closure_set_urgent(struct coxi_closure *closure, bool urgent)
{
    bool in_line = closure->state == COXI_QUEUED;
    if (closure->rerun->urgent == urgent) {
        return;
    }
    if (in_line) {
        coxi_closure_dequeue(closure);
    }
    closure->rerun->urgent = urgent;
    if (in_line) {
        coxi_closure_enqueue(closure, false);
    } else if (urgent && closure->state == COXI_WAITING) {
        coxi_inputs_hurry(closure);
    }
}

/* ---- in the replay log */

uint64_t coxi_closure_logged_bytes(const struct coxi_closure *closure)
{
    size_t args_len = 0;
    (void)coxi_inputs_args(closure, &args_len);
    size_t task_len = closure->task != NULL ? sizeof(*closure->task) : 0;
    size_t round_len = coxi_round_is_end(closure)
                           ? closure->round->n * (sizeof(*closure->round->members) +
                                                  sizeof(*closure->round->parts))
                           : 0;
    return sizeof(*closure) + args_len + task_len + round_len +
           closure->future.result_len;
}

void coxi_closure_forgotten(struct coxi_closure *closure)
{
    atomic_store(&closure->logged, false);
    coxi_kept_unlogged(closure);
    coxi_future_unref(&closure->future);
}

int coxi_closure_log(struct coxi_replay_log *log, struct coxi_closure *closure,
                     const uint32_t *touched, size_t n_touched)
{
    bool is_end = coxi_round_is_end(closure);
    if (n_touched == 0) {
        return 0;
    }
    /* Take the reference before it is in the log, because the log may drop it at any
     * moment. */
    coxi_future_ref(&closure->future);
    atomic_store(&closure->logged, true);
    const struct coxi_replay_entry entry = {
        .id = closure->future.id,
        .kind = is_end ? COXI_REPLAY_ROUND : COXI_REPLAY_CALL,
        .state = is_end ? COXI_REPLAY_OPEN : COXI_REPLAY_DONE,
        .to_round = coxi_round_distance(closure),
        .call = closure,
    };
    int r = coxi_replay_log_call(log, &entry, touched, n_touched);
    if (r != 0) {
        coxi_closure_forgotten(closure);
    }
    return r;
}

/* True if another closure of its round has failed, and so will the program's next
 * call. */
static bool has_failed_with_round(const struct coxi_closure *closure)
{
    const struct coxi_round *round = closure->round;
    int code = round != NULL ? round->end->future.code : 0;
    return code != 0 && code != COX_ECANCELLED &&
           !closure->future.c->options.keep_going;
}

/* If an error has cancelled the closure: the program may not know that yet. */
static void note_cancelled(struct cox_coordinator *c,
                           const struct coxi_closure *closure) COXI_REQUIRES(c->lock)
{
    uint64_t first = c->closures->first_cancelled;
    /* `failed`: the caller that waited for running closures may have given up
     * meanwhile. */
    bool by_error =
        c->life.reporting || c->life.failed || has_failed_with_round(closure);
    if (by_error && closure->asked.cursor != 0 &&
        (first == 0 || closure->future.id.n < first)) {
        c->closures->first_cancelled = closure->future.id.n;
    }
}

/* Records what a checkpoint, and a ps that comes back, must know of a settled
 * closure. */
static void record(struct coxi_replay_log *log, struct coxi_closure *closure,
                   const struct coxi_ending *ending)
{
    struct cox_coordinator *c = closure->future.c;
    int r = 0;
    if (closure->state != COXI_CANCELLED || closure->effect.applied ||
        coxi_round_is_late(closure)) {
        coxi_manifest_cover(&c->closures->progress, closure->future.id.n,
                            closure->asked.cursor);
    } else {
        coxi_lock(&c->lock);
        note_cancelled(c, closure);
        coxi_unlock(&c->lock);
    }
    if (closure->round != NULL) {
        return; /* what is applied of a round was logged when it was decided */
    }
    if (closure->state == COXI_DONE_OK || closure->effect.applied) {
        r = coxi_closure_log(log, closure, ending->touched, ending->n_touched);
    } else if (closure->attempts.last > 0) {
        r = coxi_replay_log_barred(log, closure->future.id);
    }
    if (r != 0) {
        coxi_fatal(c, r, coxi_error_text());
    }
}

/* ---- the end of closures */

struct coxi_closure *coxi_closure_find(struct cox_coordinator *c,
                                       struct coxi_closure_id id)
{
    struct coxi_closure *closure = coxi_closures_get(c, id);
    if (closure != NULL && closure->state != COXI_STAGED) {
        return closure;
    }
    /* recovery may run a staged closure again, whose round is on its way to the ps */
    struct coxi_closure *replay = coxi_window_get(&c->closures->replays, id.n);
    return replay != NULL ? replay : closure;
}

struct coxi_closure *coxi_closure_find_running(struct cox_coordinator *c,
                                               struct coxi_closure_id id)
{
    struct coxi_closure *closure = coxi_closure_find(c, id);
    return closure != NULL ? closure : coxi_kept_find_remake(c, id);
}

static void tell_replayed(struct coxi_closure *closure)
{
    const struct coxi_closure_events *events = closure->future.c->closures->events;
    if (events != NULL) {
        events->replayed(closure);
    }
}

void coxi_closure_settle(struct coxi_closure *closure, const struct coxi_ending *ending)
{
    struct cox_coordinator *c = closure->future.c;
    c->closures->n_voiding -= closure->state == COXI_VOIDING;
    coxi_closure_set(closure, ending->state);
    closure->future.code = ending->code;
    char *text =
        ending->text != NULL && *ending->text != '\0' ? strdup(ending->text) : NULL;
    free(closure->future.text);
    closure->future.text = text;
    closure->seat = NULL;
    if (closure->logged_scalars != NULL) {
        coxi_logged_settled(closure);
    }
    if (closure->rerun != NULL) {
        /* Recovery first takes a replay out of `replays`, so that coxi_kept_remade does
         * not find it there if the results have to be made once more. */
        tell_replayed(closure);
        coxi_kept_remade(closure);
    } else {
        (void)coxi_window_take(&c->closures->unsettled, closure->future.id.n);
        struct coxi_replay_log *log = c->replay_log;
        if (!closure->fetches && closure->future.id.n > c->closures->progress.closure) {
            c->closures->progress.closure = closure->future.id.n;
        }
        if (log != NULL && !closure->fetches) {
            record(log, closure, ending);
        }
    }
    if (closure->inputs != NULL || closure->dependents != NULL) {
        coxi_inputs_settled(closure);
    }
    if (closure->kept != NULL) {
        coxi_kept_settled(closure);
    }
    if (closure->task != NULL) {
        c->closures->handouts->settled(closure);
    }
    if (closure->round != NULL && closure->rerun == NULL) {
        coxi_round_settled(closure); /* only its end shows what it has done */
    } else {
        atomic_fetch_add(&c->closures->view, 1);
    }
    coxi_list_append(&c->closures->settling, closure);
}

void coxi_closure_be_done(struct coxi_closure *closure)
{
    closure->future.c->closures
        ->waiting_change++; /* while it was held, it did not count as waiting */
    coxi_closure_set(closure, COXI_DONE_OK);
    atomic_store(&closure->future.settled, true);
    coxi_inputs_settled(closure);
    coxi_kept_unwant(closure);
    coxi_future_unref(&closure->future);
}

void coxi_closure_end(struct coxi_closure *closure, const struct coxi_ending *ending)
{
    struct cox_coordinator *c = closure->future.c;
    if (closure->round != NULL && coxi_round_postpones(closure, ending)) {
        return;
    }
    /* An inherited closure that has not run when the client closes is left to the next
     * client, which resumes from the same checkpoint. */
    bool is_left =
        closure->older.inherited && closure->attempts.last == 0 && c->phase.closing;
    if (!closure->effect.uncertain || closure->rerun != NULL ||
        closure->round != NULL || /* only its end applies a round */
        c->phase.fatal_handled || c->phase.shutting_down || is_left) {
        coxi_closure_settle(closure, ending); /* the ps cannot or need not be asked */
        return;
    }
    coxi_closure_set(closure, COXI_VOIDING);
    closure->seat = NULL;
    c->closures->n_voiding++;
    if (coxi_voiding_start(c, closure, ending, NULL) != 0) {
        closure->effect.unknown = true;
        struct coxi_ending failed = {COXI_FAILED, COX_ENOMEM, coxi_error_text(), NULL,
                                     0};
        coxi_closure_settle(closure, &failed);
    }
}

void coxi_closure_fail(struct coxi_closure *closure, int code, const char *text)
{
    coxi_closure_end(closure, &(struct coxi_ending){COXI_FAILED, code, text, NULL, 0});
}

void coxi_closure_cancel(struct coxi_closure *closure, const char *text)
{
    coxi_closure_end(
        closure, &(struct coxi_ending){COXI_CANCELLED, COX_ECANCELLED, text, NULL, 0});
}

/* Forgets the results of an attempt that does not count. */
static void forget_results(struct coxi_closure *closure)
{
    coxi_logged_forget(closure);
    free(closure->future.result);
    closure->future.result = NULL;
    closure->future.result_len = 0;
    coxi_kept_void(closure);
}

void coxi_closure_stage_again(struct coxi_closure *closure)
{
    forget_results(closure);
    coxi_inputs_go_again(closure);
}

/* Puts a VOIDING closure at the head of the queue. */
static void run_again(struct coxi_closure *closure)
{
    closure->future.c->closures->n_voiding--;
    forget_results(closure);
    if (closure->attempts.cancelled) {
        coxi_closure_set(closure, COXI_QUEUED);
        coxi_closure_cancel(closure, "cancelled");
    } else {
        coxi_inputs_go_again(closure);
    }
}

void coxi_closure_run_again(struct coxi_closure *closure)
{
    closure->effect.applied = false;
    run_again(closure);
}

void coxi_closure_run_for_results(struct coxi_closure *closure)
{
    coxi_event(closure->future.c, COX_EVENT_CLOSURE_AGAIN,
               COXI_OF(.closure = closure->future.id),
               "closure %llu (%s) is applied, and runs again for its results",
               (unsigned long long)closure->future.id.n, closure->function->name);
    closure->effect.applied = true;
    closure->attempts.cancelled = false; /* too late, because all of it is applied */
    closure->mishaps.losses = closure->mishaps.crashes = closure->mishaps.overruns = 0;
    run_again(closure);
}

static void end_as(struct coxi_closure *closure, int code, const char *text)
{
    if (code == COX_ECANCELLED) {
        coxi_closure_cancel(closure, text);
    } else {
        coxi_closure_fail(closure, code, text);
    }
}

/*
 * True if an error that cancels everything spares the closure: it counts already, on
 * some ps at least or in the checkpoint of an older client, and only runs again for its
 * results or for a ps that lacks it. So does a closure with a task of which a part may be
 * applied (not in a round): its task could not be given out again.
 */
static bool is_spared(const struct coxi_closure *closure, int code)
{
    struct cox_coordinator *c = closure->future.c;
    if (coxi_round_is_end(closure) && closure->round->ended && code == COX_ECANCELLED &&
        !c->phase.shutting_down) {
        return true; /* the round is applied, also if the client is being closed */
    }
    return code == COX_ECANCELLED && !c->phase.closing &&
           (closure->effect.applied || closure->older.inherited ||
            (closure->task != NULL && closure->effect.uncertain &&
             closure->round == NULL) ||
            (closure->rerun != NULL && closure->rerun->urgent &&
             coxi_ps_recovering(c)));
}

void coxi_closures_fail_queue(struct coxi_queue *queue, int code, const char *text)
{
    for (int i = 0; i < COXI_LEVELS; i++) {
        for (struct coxi_closure *closure = queue->levels[i].first; closure != NULL;) {
            struct coxi_closure *next = closure->next;
            if (!is_spared(closure, code)) {
                coxi_closure_dequeue(closure);
                end_as(closure, code, text);
            }
            closure = next;
        }
    }
}

void coxi_closures_leave_home(struct coxi_seat *seat)
{
    for (int i = 0; i < COXI_LEVELS; i++) {
        for (struct coxi_closure *closure = seat->queue.levels[i].first;
             closure != NULL;) {
            struct coxi_closure *next = closure->next;
            if (closure->home != NULL) {
                closure->roams = true;
                coxi_closure_dequeue(closure);
                coxi_inputs_put_back(closure);
            }
            closure = next;
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
    for (struct coxi_closure *closure = c->closures->waiting.first; closure != NULL;) {
        struct coxi_closure *next = closure->next;
        if (!is_spared(closure, code)) {
            coxi_list_remove(&c->closures->waiting, closure);
            end_as(closure, code, text);
        }
        closure = next;
    }
}

/* ---- telling the users */

/* Counts a closure that failed or was cancelled and whose future nobody holds:
 * cox_close reports it if no other call does. */
static void note_untold(struct cox_coordinator *c, const struct coxi_closure *closure)
    COXI_REQUIRES(c->lock)
{
    if (atomic_load(&closure->future.refs) > 1) {
        return;
    }
    if (closure->state == COXI_CANCELLED) {
        c->life.untold.cancelled++;
    } else if (c->life.untold.failed++ == 0) {
        c->life.untold.first = closure->future.id;
        c->life.untold.code = closure->future.code;
        (void)snprintf(c->life.untold.text, sizeof(c->life.untold.text),
                       "%.64s: %.400s", closure->function->name,
                       coxi_future_text(&closure->future));
    }
}

/* A closure has failed: watchers of the run learn of the first one, the program of the first
 * since its last report. */
static void note_failure(struct cox_coordinator *c, const struct coxi_closure *closure)
    COXI_REQUIRES(c->lock)
{
    char text[COXI_TEXT_MAX];
    bool is_first = c->life.first_failure[0] == '\0';
    if (!is_first && c->options.keep_going) {
        return;
    }
    (void)snprintf(text, sizeof(text), "closure %llu (%s): %.400s",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   coxi_future_text(&closure->future));
    if (is_first) {
        (void)snprintf(c->life.first_failure, sizeof(c->life.first_failure), "%s",
                       text);
    }
    if (!c->options.keep_going) {
        coxi_note_error(c, closure->future.code, text);
    }
}

/* Counts one settled closure and wakes the threads that wait for it. */
static void tell(struct cox_coordinator *c, struct coxi_closure *closure)
    COXI_REQUIRES(c->lock)
{
    c->life.n_unsettled--;
    c->life.n_inherited -= closure->older.inherited;
    if (closure->rerun != NULL) {
        return; /* nobody holds it */
    }
    coxi_future_settled(&closure->future);
    coxi_run_times_add(&c->times.closures, closure->scheduled_us);
    if (closure->fetches) {
        return; /* the caller that waits for it reports the error */
    }
    if (coxi_round_is_end(closure)) {
        c->counts.stats.rounds += closure->state == COXI_DONE_OK;
        c->counts.stats.rounds_failed += closure->state != COXI_DONE_OK;
        return; /* its members report the error */
    }
    if (coxi_round_is_late(closure)) {
        c->counts.stats.late++;
        return;
    }
    if (closure->state == COXI_DONE_OK) {
        c->counts.stats.done++;
        return;
    }
    c->counts.stats.failed++;
    /* a data set tells of its tasks' errors, except that there is no worker */
    if (closure->quiet && closure->future.code != COX_ENOWORKER) {
        return;
    }
    note_untold(c, closure);
    if (closure->state == COXI_CANCELLED && has_failed_with_round(closure)) {
        /* again: until the error is known, the program may have scheduled a call */
        note_cancelled(c, closure);
    }
    if (closure->state == COXI_FAILED) {
        note_failure(c, closure);
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
    for (struct coxi_closure *closure = c->closures->settling.first; closure != NULL;
         closure = closure->next) {
        tell(c, closure);
    }
    c->ids.first_unsettled = c->closures->unsettled.first;
    if (c->life.n_unsettled == 0 || c->life.n_unsettled == c->life.n_inherited) {
        (void)pthread_cond_broadcast(&c->life.idle);
    }
    (void)pthread_cond_broadcast(&c->life.room);
    coxi_unlock(&c->lock);
    for (struct coxi_closure *closure = c->closures->settling.first; closure != NULL;) {
        struct coxi_closure *next = closure->next;
        coxi_future_unref(&closure->future);
        closure = next;
    }
    c->closures->settling = (struct coxi_list){0};
}
