/*
 * What the end of an attempt means for its closure: results, losses, crashes, overruns,
 * attempts handed back; and cancelling. A closure has one attempt at a time, or two
 * while a straggler is raced (stragglers.c); an answer counts only if it names an
 * attempt that is under way, and comes from the worker that has it.
 *
 *   done, failed      the closure ends, whatever its other attempt does
 *   cancelled         the closure ends, if it was cancelled; otherwise the attempt was
 *                     handed back, and the closure is in line again
 *   overran, lost,    the closure is first in line again, until there have been too
 *   crashed           many of these
 *
 * `uncertain` says that an attempt is over and may have applied something without a
 * report. It stays true.
 *
 * Threads: loop.
 */
#include "coordinator/closures/attempts.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/scalars.h"
#include "common/sync.h"
#include "common/trace.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/cause.h"
#include "coordinator/base/event.h"
#include "coordinator/base/profile.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/task_stream.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/handout.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/logged.h"
#include "coordinator/closures/losses.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/stragglers.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/resource.h"

/* ---- attempts that do not end their closure */

static void count(uint8_t *n)
{
    *n = (uint8_t)(*n < UINT8_MAX ? *n + 1 : UINT8_MAX);
}

/* The closure was told to end, because its user does not want it, an error has ended
 * the round, or a ps is lost; its future reports the reason. */
static void end_cancelled(struct coxi_closure *closure)
{
    int r = coxi_check_alive(closure->future.c);
    if (r == COX_EPSLOST || r == COX_EFENCED) {
        coxi_closure_fail(closure, r, coxi_error_text());
    } else {
        coxi_closure_cancel(closure, "cancelled");
    }
}

/* Ends the closure if it was cancelled, or has had too many crashes, overruns or
 * losses; the last of them was at `where`. */
static bool end_if_hopeless(struct coxi_closure *closure, const char *where)
{
    const struct cox_options *options = &closure->future.c->options;
    char text[COXI_TEXT_MAX];
    if (closure->attempts.cancelled) {
        end_cancelled(closure);
    } else if (closure->mishaps.crashes >= options->max_crashes) {
        (void)snprintf(text, sizeof(text), "it crashed its process %u time%s: %.400s",
                       closure->mishaps.crashes, coxi_s(closure->mishaps.crashes),
                       closure->mishaps.crash_text != NULL ? closure->mishaps.crash_text
                                                           : "");
        coxi_closure_fail(closure, COX_ECRASHED, text);
    } else if (closure->mishaps.overruns >= options->max_attempts) {
        (void)snprintf(text, sizeof(text),
                       "it ran for more than %u ms, %u time%s, the last time at %.300s",
                       closure->asked.timeout_ms, closure->mishaps.overruns,
                       coxi_s(closure->mishaps.overruns), where);
        coxi_closure_fail(closure, COX_EOVERRUN, text);
    } else if (closure->mishaps.losses >= COXI_LOSSES_MAX) {
        (void)snprintf(text, sizeof(text),
                       "%d workers were lost while they ran it, the last at %.300s",
                       COXI_LOSSES_MAX, where);
        coxi_closure_fail(closure, COX_ELOST, text);
    } else {
        return false;
    }
    return true;
}

/*
 * An attempt of an ASSIGNED closure has ended without ending the closure, and its
 * worker no longer has it: the closure continues with its second attempt, goes back
 * into the queue, or ends for another reason. `where`: the worker's address.
 */
static void go_on(struct coxi_closure *closure, const char *where)
{
    if (end_if_hopeless(closure, where)) {
        coxi_straggler_drop(closure);
    } else if (!coxi_straggler_promote(closure)) {
        closure->seat = NULL;
        closure->roams = closure->roams || closure->attempts.called_back;
        bool is_member = closure->round != NULL && closure->rerun == NULL;
        if (!is_member || !coxi_round_takes_back(closure)) {
            coxi_inputs_put_back(closure);
        }
    }
}

void coxi_attempts_put_back(struct coxi_seat *seat, uint32_t running)
{
    struct cox_coordinator *c = seat->c;
    size_t n_back = seat->in_flight.n;
    coxi_losses_begin(seat);
    /* From the newest to the oldest, so that the oldest is first in the queue again. */
    struct coxi_closure *closure;
    while ((closure = seat->in_flight.last) != NULL) {
        if (seat->in_flight.n <= running) {
            coxi_loss_count(seat, closure);
        }
        closure->effect.uncertain = true;
        coxi_seat_let_go(seat, closure);
        go_on(closure, seat->worker->url);
    }
    coxi_stragglers_lost(seat);
    coxi_seat_forget_all(seat);
    coxi_lock(&c->lock);
    c->counts.stats.put_back += n_back;
    coxi_unlock(&c->lock);
}

/* ---- crashes */

/* `n_ran` steps ran when the process crashed. */
static void tell_crash(struct coxi_closure *closure, const struct coxi_seat *seat,
                       int cause, size_t n_ran)
{
    char others[128] = "";
    if (n_ran > 1) {
        (void)snprintf(
            others, sizeof(others),
            "; %zu steps ran there: each runs alone from now on, until it is "
            "known which one crashes",
            n_ran);
    }
    coxi_event(closure->future.c, COX_EVENT_STEP_CRASHED,
               COXI_OF(.worker = coxi_maybe_of(seat->worker->index),
                       .closure = closure->future.id, .error = COX_ECRASHED),
               "closure %llu (%s) %s of worker %u: %s%s",
               (unsigned long long)closure->future.id.n, closure->function->name,
               n_ran > 1 ? "ran in the crashed process" : "crashed the process",
               seat->worker->index, coxi_cause_text(cause), others);
}

/* Adds "worker 3: Segmentation fault" to the closure's crashes. */
static void note_crash(struct coxi_closure *closure, uint32_t worker, int cause)
{
    char text[COXI_TEXT_MAX];
    const char *before =
        closure->mishaps.crash_text != NULL ? closure->mishaps.crash_text : "";
    (void)snprintf(text, sizeof(text), "%.300s%sworker %u: %s", before,
                   *before != '\0' ? ", " : "", worker, coxi_cause_text(cause));
    free(closure->mishaps.crash_text);
    closure->mishaps.crash_text = strdup(text);
    count(&closure->mishaps.crashes);
}

/* Counts an overrun once, although it may be reported twice: by the worker before it
 * ends the process, so that it counts before the closure runs elsewhere; and by the
 * next process. */
static void note_overrun(const struct coxi_seat *seat, struct coxi_closure *closure,
                         uint32_t attempt)
{
    if (attempt > closure->mishaps.last_overrun) {
        closure->mishaps.last_overrun = attempt;
        count(&closure->mishaps.overruns);
        coxi_event(closure->future.c, COX_EVENT_STEP_OVERRUN,
                   COXI_OF(.worker = coxi_maybe_of(seat->worker->index),
                           .closure = closure->future.id, .error = COX_EOVERRUN),
                   "closure %llu (%s) ran for more than %u ms on worker %u, and was "
                   "cancelled there: attempt %u of %u",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   closure->asked.timeout_ms, seat->worker->index,
                   closure->mishaps.overruns, closure->future.c->options.max_attempts);
    }
}

/* If several steps ran, each is only a suspect and runs alone from then on, so the next
 * crash shows the guilty one. A step that ran for too long is known to be guilty. */
static void take_report(struct coxi_seat *seat, struct coxi_closure *closure,
                        const struct coxi_crashed_head *head, size_t n_ran)
{
    if (head->cause == COXI_CAUSE_OVERRUN) {
        note_overrun(seat, closure, head->attempt);
    } else if (head->cause != SIGKILL) { /* a SIGKILL counts as a loss (losses.c) */
        closure->mishaps.suspect = true;
        tell_crash(closure, seat, head->cause, n_ran);
        if (n_ran == 1) {
            note_crash(closure, seat->worker->index, head->cause);
        }
    }
}

/* Ends a closure that is hopeless, although it has been put back already: its worker was
 * lost before it could report the reason. */
static void judge_late(struct coxi_closure *closure, const char *where)
{
    struct coxi_list *waiting = &closure->future.c->closures->waiting;
    if (closure->state == COXI_QUEUED) {
        coxi_closure_dequeue(closure);
        if (!end_if_hopeless(closure, where)) {
            coxi_closure_enqueue(closure, true);
        }
    } else if (closure->state == COXI_WAITING && closure->held_by_round) {
        coxi_list_remove(waiting, closure);
        if (!end_if_hopeless(closure, where)) {
            coxi_list_append(waiting, closure);
        }
    }
}

void coxi_attempts_crashed(struct coxi_seat *seat, const struct coxi_crashed *crashed)
{
    struct cox_coordinator *c = seat->c;
    bool known = crashed->n_closures == 1;
    coxi_losses_told(seat, crashed);
    for (size_t i = 0; i < crashed->n_closures; i++) {
        const struct coxi_crashed_head *head = &crashed->closures[i];
        if (head->closure == 0) {
            if (known || head->cause == COXI_CAUSE_OVERRUN) {
                /* otherwise the resource is made again, alone */
                coxi_resource_crashed(seat->worker, head);
            }
            continue;
        }
        struct coxi_closure *closure =
            coxi_closure_find_running(c, coxi_closure_id(head->closure));
        if (closure == NULL || head->attempt > closure->attempts.last ||
            closure->state == COXI_VOIDING) {
            continue;
        }
        take_report(seat, closure, head, crashed->n_closures);
        judge_late(closure, seat->worker->url);
    }
}

/* ---- results */

/* The next `len` bytes (padded to 8) of a payload, or NULL past its end. */
static const uint8_t *take(const uint8_t **at, size_t *left, size_t len)
{
    const uint8_t *bytes = *at;
    size_t padded = coxi_align(len, 8);
    if (padded > *left) {
        return NULL;
    }
    *at += padded;
    *left -= padded;
    return bytes;
}

/* A worker's report of the end of an attempt. */
struct answer {
    const struct coxi_done_head *head;
    const uint32_t *touched;
    const uint8_t *result;
    const uint8_t *scalars; /* that its step has logged, packed */
    size_t scalars_len;
    bool kept;    /* the result is the number of bytes that the worker keeps */
    float weight; /* how much it counts in its round */
    bool ended;   /* a ps has the end of its round */
    const struct coxi_step_times *times; /* NULL: its step has not run */
};

/* A call of the function took `run_us`. */
static void note_time(struct cox_function *function, uint32_t run_us)
{
    if (function->n_samples < COXI_SAMPLES) {
        function->n_samples++;
        function->average_us += (run_us - function->average_us) / function->n_samples;
    } else {
        function->average_us += 0.1 * (run_us - function->average_us);
    }
}

/* Gives the attempt's results to the closure, or notes that the worker keeps them.
 * COX_ENOMEM. */
static int take_result(struct coxi_seat *seat, struct coxi_closure *closure,
                       const struct answer *answer)
{
    size_t len = answer->head->result_len;
    if (answer->kept) {
        uint64_t bytes;
        memcpy(&bytes, answer->result, sizeof(bytes));
        coxi_kept_done(closure, seat, answer->head->attempt, bytes);
        return 0;
    }
    struct coxi_closure *of = closure->rerun != NULL ? closure->rerun->of : closure;
    return of->kept != NULL ? coxi_kept_take(of, answer->result, len)
                            : coxi_future_keep(&closure->future, answer->result, len);
}

/* Ends the closure with the outcome of one of its attempts; or, in a round, stages it:
 * its updates wait. */
static void end_closure(struct coxi_seat *seat, struct coxi_closure *closure,
                        const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    char text[COXI_TEXT_MAX] = "";
    struct coxi_ending ending = {.state = COXI_DONE_OK,
                                 .code = head->code,
                                 .touched = answer->touched,
                                 .n_touched = head->touched_n};
    if (closure->task != NULL && head->code == 0) {
        closure->future.c->closures->handouts->answered(
            closure, head->run_us, answer->result, head->result_len);
    }
    if (head->code == 0 && answer->scalars_len > 0) {
        coxi_logged_keep(closure, answer->scalars, answer->scalars_len);
    }
    bool waits = closure->round != NULL && closure->rerun == NULL;
    if (head->code == 0 && take_result(seat, closure, answer) != 0) {
        closure->effect.applied = !waits; /* a restored ps still needs it */
        ending.state = COXI_FAILED;
        ending.code = COX_ENOMEM;
        ending.text = waits ? "there is no memory for its results"
                            : "all its updates are applied, but there is no memory for "
                              "its results";
    } else if (head->code != 0) {
        size_t len =
            head->result_len < sizeof(text) ? head->result_len : sizeof(text) - 1;
        if (len > 0) {
            memcpy(text, answer->result, len);
        }
        closure->future.step_code = head->step_code;
        ending.state = COXI_FAILED;
        ending.text = text;
    }
    if (ending.code == COX_EPSLOST || ending.code == COX_EFENCED) {
        coxi_fatal(closure->future.c, ending.code, text);
        closure->effect.uncertain = false; /* the run is over: the ps are not asked */
    }
    if (ending.state == COXI_DONE_OK && waits) {
        coxi_round_stage(closure, &(struct coxi_staged){head->attempt, answer->weight,
                                                        answer->ended, answer->touched,
                                                        head->touched_n});
    } else {
        coxi_closure_end(closure, &ending);
    }
}

/* An attempt that was under way has ended; the worker no longer has it. */
static void attempt_ended(struct coxi_seat *seat, struct coxi_closure *closure,
                          const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    /* A failed commit may be applied on some of its ps; a flushed part is applied. */
    closure->effect.uncertain =
        closure->effect.uncertain || (head->code != 0 && head->touched_n > 0);
    if (head->code == COX_EOVERRUN) {
        note_overrun(seat, closure, head->attempt);
    }
    /* Its updates on a ps that is or was lost are gone. A ps that only this worker
     * cannot reach is not lost: another worker runs the closure. */
    bool again =
        head->code == COX_EPSLOST
            ? coxi_ps_may_return(closure->future.c) || seat->worker->n_unreached > 0
            : head->code == 0 &&
                  closure->attempts.epoch != closure->future.c->ps.epoch &&
                  coxi_ps_is_stale(closure->future.c, closure->attempts.epoch,
                                   answer->touched, head->touched_n);
    closure->effect.uncertain = closure->effect.uncertain || again;
    if (again || head->code == COX_EOVERRUN || head->code == COX_ECANCELLED) {
        go_on(closure, seat->worker->url);
        return;
    }
    if (head->code == 0) {
        closure->attempts.current = head->attempt; /* the one that counts */
        note_time(closure->function, head->run_us);
    }
    if (closure->second != NULL) {
        coxi_straggler_drop(closure);
    }
    end_closure(seat, closure, answer);
}

/* The attempt's closure, which the worker no longer has; or NULL if the attempt does
 * not count. */
static struct coxi_closure *find_ended(struct coxi_seat *seat,
                                       const struct coxi_done_head *head)
{
    struct coxi_closure *closure =
        coxi_closure_find_running(seat->c, coxi_closure_id(head->closure));
    if (closure == NULL || closure->state != COXI_ASSIGNED) {
        return NULL;
    }
    if (closure->seat == seat && closure->attempts.current == head->attempt) {
        coxi_seat_let_go(seat, closure);
        return closure;
    }
    return coxi_straggler_ended(seat, closure, head) ? closure : NULL;
}

/* Adds the step to the task stream. */
static void note_span(struct coxi_seat *seat, const struct cox_function *function,
                      const struct answer *answer)
{
    const struct coxi_task_stream_span span = {
        .function = function,
        .begin_us = coxi_peer_clock_ours(&seat->ways.clock, answer->times->begin_us),
        .run_us = answer->head->run_us,
        .worker = seat->worker->index,
        .slot = answer->times->slot,
        .code = answer->head->code,
    };
    coxi_task_stream_add(&seat->c->task_stream, &span);
}

static void handle_answer(struct coxi_seat *seat, const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    struct coxi_closure *closure = find_ended(seat, head);
    bool was_there =
        closure != NULL ||
        coxi_seat_forget(seat, coxi_closure_id(head->closure), head->attempt);
    if (was_there && (head->code == 0 || head->run_us > 0)) {
        coxi_seat_note_time(seat, head->run_us); /* its step has run */
    }
    seat->n_done += was_there && head->code == 0;
    if (closure != NULL && answer->times != NULL) {
        coxi_profile_note(&closure->function->profile, head->run_us, answer->times,
                          seat->c->closures->n_queued == 0);
        if (coxi_task_stream_takes(&seat->c->task_stream)) {
            note_span(seat, closure->function, answer);
        }
    }
    if (closure != NULL) {
        attempt_ended(seat, closure, answer);
    }
    if (answer->kept && (closure == NULL || coxi_kept_seat(closure) != seat ||
                         closure->kept->attempt != head->attempt)) {
        coxi_kept_drop(seat, coxi_closure_id(head->closure), head->attempt);
    }
}

int coxi_attempts_done(struct coxi_worker *worker, const struct coxi_done *done,
                       const uint8_t *payload, size_t len)
{
    struct coxi_seat *seat = worker->seat;
    size_t n_kept = 0;
    size_t n_ended = 0;
    uint64_t begun_ns = coxi_trace_begin();
    coxi_ways_note(&seat->ways, done);
    coxi_task_stream_look(&seat->c->task_stream);
    for (size_t i = 0; i < done->n_closures; i++) {
        const struct coxi_done_head *head = &done->closures[i];
        struct answer answer = {.head = head, .weight = 1};
        if (done->weights != NULL && head->code == 0) {
            answer.weight = done->weights[i];
        }
        if (done->times != NULL && done->times[i].begin_us != 0) {
            answer.times = &done->times[i];
        }
        answer.kept = n_kept < done->n_kept && done->kept[n_kept] == i;
        n_kept += answer.kept;
        answer.ended = n_ended < done->n_ended && done->ended[n_ended] == i;
        n_ended += answer.ended;
        answer.touched = (const uint32_t *)(const void *)take(
            &payload, &len, (size_t)head->touched_n * sizeof(uint32_t));
        answer.result = take(&payload, &len, head->result_len);
        answer.scalars_len = done->scalars != NULL ? done->scalars[i] : 0;
        answer.scalars = take(&payload, &len, answer.scalars_len);
        if (answer.touched == NULL || answer.result == NULL || answer.scalars == NULL ||
            (answer.kept && head->result_len != sizeof(uint64_t))) {
            return coxi_error(COX_EPROTO, "the length of its results is wrong");
        }
        if (!isfinite(answer.weight) || answer.weight < 0) {
            return coxi_error(COX_EPROTO, "a closure counts %g times in its round",
                              (double)answer.weight);
        }
        if (!coxi_scalars_check(answer.scalars, answer.scalars_len)) {
            return coxi_error(COX_EPROTO, "its scalars are malformed");
        }
        handle_answer(seat, &answer);
    }
    coxi_seat_update(seat);
    coxi_trace_end(begun_ns,
                   &(struct coxi_trace_of){.kind = COXI_TRACE_REPORTS,
                                           .arg = (uint32_t)done->n_closures});
    return 0;
}

/* ---- cancelling */

void coxi_attempts_cancel(struct coxi_closure *closure)
{
    if (closure->effect.applied) {
        return; /* too late: all of it is applied */
    }
    switch ((enum coxi_closure_state)closure->state) {
    case COXI_WAITING:
        coxi_list_remove(&closure->future.c->closures->waiting, closure);
        coxi_closure_cancel(closure, "cancelled");
        break;
    case COXI_QUEUED:
        coxi_closure_dequeue(closure);
        coxi_closure_cancel(closure, "cancelled");
        break;
    case COXI_ASSIGNED:
        closure->attempts.cancelled = true;
        coxi_send_recall(closure->seat, closure->future.id, closure->attempts.current,
                         true);
        coxi_straggler_drop(closure);
        break;
    case COXI_STAGED:
        if (!closure->round->decided) { /* otherwise it is too late */
            coxi_closure_cancel(closure, "cancelled");
        }
        break;
    case COXI_VOIDING: /* it ends as it would have, but does not run again */
        closure->attempts.cancelled = true;
        break;
    case COXI_DONE_OK:
    case COXI_FAILED:
    case COXI_CANCELLED:
        break;
    }
}
