/*
 * What the end of an attempt means for its closure: results, losses, crashes, overruns,
 * attempts handed back; and cancelling. A closure has one attempt at a time, or two
 * while a straggler is raced (stragglers.c); an answer counts only if it names an attempt
 * that is under way, and its worker.
 *
 *   done, failed          the closure ends, whatever its other attempt does
 *   cancelled             it ends, if it was to; else it was handed back: in line again
 *   overran, lost,        in line again (first), until there have been as many as may be
 *   crashed
 *
 * `uncertain` says that an attempt is over of which nobody knows whether it has applied
 * something. It never becomes false again.
 *
 * Threads: loop.
 */
#include "coordinator/closures/attempts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/cause.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/future.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/losses.h"
#include "coordinator/closures/queue.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/send.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/stragglers.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/resource.h"

/* ---- attempts that do not end their closure */

static void count(uint8_t *n)
{
    *n = (uint8_t)(*n < UINT8_MAX ? *n + 1 : UINT8_MAX);
}

/* It was told to end: since its user does not want it, an error has ended the round, or a
 * ps is lost; that is what its future tells, then. */
static void end_cancelled(struct cox_future *f)
{
    int r = coxi_check_alive(f->c);
    if (r == COX_EPSLOST || r == COX_EFENCED) {
        coxi_closure_fail(f, r, coxi_error_text());
    } else {
        coxi_closure_cancel(f, "cancelled");
    }
}

/* Ends it if there have been too many of what is put up with; `where` was the last. */
static bool end_if_hopeless(struct cox_future *f, const char *where)
{
    const struct cox_options *options = &f->c->options;
    char text[COXI_TEXT_MAX];
    if (f->cancelled) {
        end_cancelled(f);
    } else if (f->crashes >= options->max_crashes) {
        (void)snprintf(text, sizeof(text), "it crashed its process %u time%s: %.400s",
                       f->crashes, coxi_s(f->crashes), f->text != NULL ? f->text : "");
        coxi_closure_fail(f, COX_ECRASHED, text);
    } else if (f->overruns >= options->max_attempts) {
        (void)snprintf(text, sizeof(text),
                       "it ran for more than %u ms, %u time%s, the last time at %.300s",
                       f->timeout_ms, f->overruns, coxi_s(f->overruns), where);
        coxi_closure_fail(f, COX_EOVERRUN, text);
    } else if (f->losses >= COXI_LOSSES_MAX) {
        (void)snprintf(text, sizeof(text),
                       "%d workers were lost while they ran it, the last at %.300s",
                       COXI_LOSSES_MAX, where);
        coxi_closure_fail(f, COX_ELOST, text);
    } else {
        return false;
    }
    return true;
}

/*
 * An attempt of an ASSIGNED closure that is in no worker's hands any more has ended
 * without ending the closure: it goes on with its second attempt, or in the queue, or
 * ends for a reason of its own. `where`: the worker's address.
 */
static void go_on(struct cox_future *f, const char *where)
{
    if (end_if_hopeless(f, where)) {
        coxi_straggler_drop(f);
    } else if (!coxi_straggler_promote(f)) {
        f->seat = NULL;
        f->roams = f->roams || f->called_back;
        coxi_inputs_put_back(f);
    }
}

void coxi_attempts_put_back(struct coxi_seat *seat, uint32_t running)
{
    struct cox_coordinator *c = seat->c;
    size_t n_back = seat->in_flight.n;
    coxi_losses_begin(seat);
    /* From the newest to the oldest, so that the oldest is first in the queue again. */
    struct cox_future *f;
    while ((f = seat->in_flight.last) != NULL) {
        if (seat->in_flight.n <= running) {
            coxi_loss_count(seat, f);
        }
        f->uncertain = true;
        coxi_seat_let_go(seat, f);
        go_on(f, seat->worker->url);
    }
    coxi_stragglers_lost(seat);
    coxi_lock(&c->lock);
    c->counts.stats.put_back += n_back;
    coxi_unlock(&c->lock);
}

/* ---- crashes */

/* `n_ran` steps ran when the process crashed. */
static void tell_crash(struct cox_future *f, const struct coxi_seat *seat, int cause,
                       size_t n_ran)
{
    char others[128] = "";
    if (n_ran > 1) {
        (void)snprintf(
            others, sizeof(others),
            "; %zu steps ran there: each runs alone from now on, until it is "
            "known which one crashes",
            n_ran);
    }
    coxi_event(f->c, COX_EVENT_STEP_CRASHED,
               COXI_OF(.worker = 1 + seat->worker->index, .closure = f->id,
                       .error = COX_ECRASHED),
               "closure %llu (%s) %s of worker %u: %s%s", (unsigned long long)f->id,
               f->function->name,
               n_ran > 1 ? "ran in the crashed process" : "crashed the process",
               seat->worker->index, coxi_cause_text(cause), others);
}

/* Adds "worker 3: Segmentation fault" to what is known of its crashes. */
static void note_crash(struct cox_future *f, uint32_t worker, int cause)
{
    char text[COXI_TEXT_MAX];
    const char *before = f->text != NULL ? f->text : "";
    (void)snprintf(text, sizeof(text), "%.300s%sworker %u: %s", before,
                   *before != '\0' ? ", " : "", worker, coxi_cause_text(cause));
    free(f->text);
    f->text = strdup(text);
    count(&f->crashes);
}

/* An attempt that takes its process along is told before that ends, so that the closure does
 * not run elsewhere until the next process tells it, too. */
static void note_overrun(const struct coxi_seat *seat, struct cox_future *f,
                         uint32_t attempt)
{
    if (attempt > f->overran) {
        f->overran = attempt;
        count(&f->overruns);
        coxi_event(f->c, COX_EVENT_STEP_OVERRUN,
                   COXI_OF(.worker = 1 + seat->worker->index, .closure = f->id,
                           .error = COX_EOVERRUN),
                   "closure %llu (%s) ran for more than %u ms on worker %u, and was "
                   "cancelled there: attempt %u of %u",
                   (unsigned long long)f->id, f->function->name, f->timeout_ms,
                   seat->worker->index, f->overruns, f->c->options.max_attempts);
    }
}

/*
 * One of several that ran is only a suspect, and each runs alone from then on: the guilty one
 * is the only one the next time. A step that ran for too long is known.
 */
static void take_report(struct coxi_seat *seat, struct cox_future *f,
                        const struct coxi_crashed_head *head, size_t n_ran)
{
    if (head->cause == COXI_CAUSE_OVERRUN) {
        note_overrun(seat, f, head->attempt);
    } else if (head->cause != SIGKILL) { /* that is a loss (losses.c) */
        f->suspect = true;
        tell_crash(f, seat, head->cause, n_ran);
        if (n_ran == 1) {
            note_crash(f, seat->worker->index, head->cause);
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
                coxi_resource_crashed(seat->worker,
                                      head); /* else: it is made anew, alone */
            }
            continue;
        }
        struct cox_future *f = coxi_closure_find_running(c, head->closure);
        if (f == NULL || head->attempt > f->attempt || f->state == COXI_VOIDING) {
            continue;
        }
        take_report(seat, f, head, crashed->n_closures);
        if (f->state == COXI_QUEUED) {
            /* Its worker was lost before it could say why. */
            coxi_closure_dequeue(f);
            if (!end_if_hopeless(f, seat->worker->url)) {
                coxi_closure_enqueue(f, true);
            }
        }
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

/* What a worker says of the end of an attempt. */
struct answer {
    const struct coxi_done_head *head;
    const uint32_t *touched;
    const uint8_t *result;
    bool kept; /* the result is how many bytes stay there */
};

/* What the attempt has returned is the closure's; or stays with the worker. COX_ENOMEM. */
static int take_result(struct coxi_seat *seat, struct cox_future *f,
                       const struct answer *answer)
{
    size_t len = answer->head->result_len;
    if (answer->kept) {
        uint64_t bytes;
        memcpy(&bytes, answer->result, sizeof(bytes));
        coxi_kept_done(f, seat, answer->head->attempt, bytes);
        return 0;
    }
    struct cox_future *of = f->replay != NULL ? f->replay : f;
    return of->kept != NULL ? coxi_kept_take(of, answer->result, len)
                            : coxi_future_keep(f, answer->result, len);
}

/* The closure ends as an attempt of it says. */
static void end_closure(struct coxi_seat *seat, struct cox_future *f,
                        const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    char text[COXI_TEXT_MAX] = "";
    struct coxi_ending ending = {.state = COXI_DONE_OK,
                                 .code = head->code,
                                 .touched = answer->touched,
                                 .n_touched = head->touched_n};
    if (head->code == 0 && take_result(seat, f, answer) != 0) {
        f->applied = true; /* a ps that comes back is owed it all the same */
        ending.state = COXI_FAILED;
        ending.code = COX_ENOMEM;
        ending.text = "all its updates are applied, but there is no memory for what it "
                      "returned";
    } else if (head->code != 0) {
        size_t len =
            head->result_len < sizeof(text) ? head->result_len : sizeof(text) - 1;
        if (len > 0) {
            memcpy(text, answer->result, len);
        }
        f->step_code = head->step_code;
        ending.state = COXI_FAILED;
        ending.text = text;
    }
    if (ending.code == COX_EPSLOST || ending.code == COX_EFENCED) {
        coxi_fatal(f->c, ending.code, text);
        f->uncertain = false; /* the run is over */
    }
    coxi_closure_end(f, &ending);
}

/* An attempt that was under way has ended; the worker has let go of it. */
static void attempt_ended(struct coxi_seat *seat, struct cox_future *f,
                          const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    /* A failed commit may be applied on one ps of several; a flushed part is. */
    f->uncertain = f->uncertain || (head->code != 0 && head->touched_n > 0);
    if (head->code == COX_EOVERRUN) {
        note_overrun(seat, f, head->attempt);
    }
    /* What it has applied on a ps that is lost, or was, is gone. A ps that only this worker
     * cannot reach is not lost: another worker does it. */
    bool again =
        head->code == COX_EPSLOST
            ? coxi_ps_may_return(f->c) || seat->worker->n_unreached > 0
            : head->code == 0 &&
                  coxi_ps_is_stale(f->c, f->epoch, answer->touched, head->touched_n);
    f->uncertain = f->uncertain || again;
    if (again || head->code == COX_EOVERRUN || head->code == COX_ECANCELLED) {
        go_on(f, seat->worker->url);
        return;
    }
    if (head->code == 0) {
        coxi_straggler_sample(f->function, head->run_us);
    }
    if (f->second != NULL) {
        coxi_straggler_drop(f);
    }
    end_closure(seat, f, answer);
}

/* The attempt's closure, if the attempt counts: the worker has let go of it then. */
static struct cox_future *find_ended(struct coxi_seat *seat,
                                     const struct coxi_done_head *head)
{
    struct cox_future *f = coxi_closure_find_running(seat->c, head->closure);
    if (f == NULL || f->state != COXI_ASSIGNED) {
        return NULL;
    }
    if (f->seat == seat && f->current == head->attempt) {
        coxi_seat_let_go(seat, f);
        return f;
    }
    return coxi_straggler_ended(seat, f, head) ? f : NULL;
}

static void handle_answer(struct coxi_seat *seat, const struct answer *answer)
{
    const struct coxi_done_head *head = answer->head;
    struct cox_future *f = find_ended(seat, head);
    if (f != NULL) {
        seat->average_us += 0.1 * (head->run_us + 0.5 - seat->average_us);
        attempt_ended(seat, f, answer);
    }
    if (answer->kept &&
        (f == NULL || coxi_kept_seat(f) != seat || f->kept->attempt != head->attempt)) {
        coxi_kept_drop(seat, head->closure, head->attempt);
    }
}

int coxi_attempts_done(struct coxi_seat *seat, const struct coxi_done *done,
                       const uint8_t *payload, size_t len)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < done->n_closures; i++) {
        const struct coxi_done_head *head = &done->closures[i];
        struct answer answer = {head, NULL, NULL, false};
        answer.kept = n_kept < done->n_kept && done->kept[n_kept] == i;
        n_kept += answer.kept;
        answer.touched = (const uint32_t *)(const void *)take(
            &payload, &len, (size_t)head->touched_n * sizeof(uint32_t));
        answer.result = take(&payload, &len, head->result_len);
        if (answer.touched == NULL || answer.result == NULL ||
            (answer.kept && head->result_len != sizeof(uint64_t))) {
            return coxi_error(COX_EPROTO, "results are not as long as they say");
        }
        handle_answer(seat, &answer);
    }
    coxi_ways_note(&seat->ways, done);
    coxi_seat_update(seat);
    return 0;
}

/* ---- cancelling */

void coxi_attempts_cancel_all(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->workers->n; i++) {
        struct cox_future *f = c->workers->all[i]->seat->in_flight.first;
        for (; f != NULL; f = f->next) {
            f->cancelled = f->cancelled ||
                           (f->replay == NULL && !f->applied && !f->inherited) ||
                           c->life.closing || c->life.fatal_handled;
        }
        coxi_send_recall_all(c->workers->all[i]->seat);
    }
}

void coxi_attempts_cancel(struct cox_future *f)
{
    if (f->applied) {
        return; /* too late */
    }
    switch ((enum coxi_closure_state)f->state) {
    case COXI_WAITING:
        coxi_list_remove(&f->c->closures->waiting, f);
        coxi_closure_cancel(f, "cancelled");
        break;
    case COXI_QUEUED:
        coxi_closure_dequeue(f);
        coxi_closure_cancel(f, "cancelled");
        break;
    case COXI_ASSIGNED:
        f->cancelled = true;
        coxi_send_recall(f->seat, f->id, f->current, true);
        coxi_straggler_drop(f);
        break;
    case COXI_VOIDING: /* it ends as it is; but it does not run again */
        f->cancelled = true;
        break;
    case COXI_DONE_OK:
    case COXI_FAILED:
    case COXI_CANCELLED:
        break;
    }
}
