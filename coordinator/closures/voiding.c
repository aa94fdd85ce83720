/*
 * The end of a closure when an attempt may have committed something without a report:
 * attempts were lost, a commit failed on one ps of several, or the closure is
 * cancelled. Every ps is asked to refuse its attempts from now on, and to say what it
 * has applied (docs/exactly-once.md, rules 8 and 9).
 *
 *   no ps has applied anything        it ends as intended, and leaves no trace
 *   all of it is applied everywhere,  it is done, whatever its last attempt said; see
 *   segment by segment to the last    below
 *   a part of it is applied           COX_EPARTIAL, with the ps that have it at this
 *                                     moment. After the loss of too many workers it
 *                                     runs again instead, if its step has returned
 *                                     once: then the step was not what killed them
 *   two attempts were not alike       COX_EDIVERGED, with the ps that have something
 *
 * A closure that is done has its results. If all of it is applied, its results died
 * with the worker whose attempt applied it. If somebody holds its future, it runs
 * again, once, before it is settled: the ps treat its commits as duplicates. If that
 * fails, or the client is being closed, it ends with COX_EREPLAY. Kept results are made
 * again when they are needed (kept.c).
 *
 * Does not: decide that a closure ends (dispatch.c).
 *
 * Threads: begins and ends on the loop. Answers come on the threads of the ps clients;
 * each writes to its own place, and the last one posts the rest to the loop.
 *
 * The loop never waits for a ps, because it is the loop that declares ps lost.
 * Therefore only the number of closures that workers have bounds how many voidings are
 * under way.
 *
 * Cost: a message to each ps. The messages of one turn of the loop leave together,
 * because a worker may be lost with thousands of closures, and hundreds of workers at
 * once.
 */
#include "coordinator/closures/voiding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/tally.h"
#include "net/ps_client.h"

struct voiding;

/* The answer of one ps. */
struct answer {
    struct coxi_psc_request request; /* must be the first member */
    struct voiding *voiding;
    int code;
    char text[256];
};

struct voiding {
    struct coxi_mail mail; /* must be the first member */
    struct cox_coordinator *c;
    struct coxi_closure *closure;
    struct coxi_ending ending;
    char text[COXI_TEXT_MAX];
    uint32_t *touched; /* ending.touched */
    atomic_uint n_pending;
    uint32_t n_ps;
    uint64_t n_losses; /* coxi_ps_losses when the ps were asked */
    bool again;        /* the closure runs again for its results */
    bool goes_on;      /* the closure does not end */
    void (*told_of)(struct coxi_closure *closure, enum coxi_void_outcome outcome);
    struct coxi_told *told; /* what the ps have applied, by ps */
    struct answer answers[];
};

static void voiding_free(struct voiding *voiding)
{
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        free(voiding->told[p].segments);
        free(voiding->told[p].touched);
    }
    free(voiding->told);
    free(voiding->touched);
    free(voiding);
}

/* ---- the meaning of the answers. Loop */

/* True if a ps has something of the closure although the successful attempt did not
 * touch that ps. */
static bool is_elsewhere(const struct voiding *voiding)
{
    size_t n = 0;
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        bool touched = n < voiding->ending.n_touched && voiding->ending.touched[n] == p;
        n += touched;
        if (!touched && voiding->told[p].n_segments > 0) {
            return true;
        }
    }
    return false;
}

/*
 * Fails the closure, and adds "as of now it is applied on ps 0, 2" to its text. The
 * closure is never replayed, so a ps that is lost later comes back with what the
 * checkpoint has of it.
 */
static void tell_partial(struct voiding *voiding, int code)
{
    size_t used = strlen(voiding->text);
    const char *between =
        used > 0 ? "; as of now it is applied on ps" : "as of now it is applied on ps";
    for (uint32_t p = 0; p < voiding->n_ps && used < sizeof(voiding->text); p++) {
        if (voiding->told[p].n_segments > 0) {
            used += (size_t)snprintf(voiding->text + used, sizeof(voiding->text) - used,
                                     "%s %u", between, p);
            between = ",";
        }
    }
    voiding->ending.state = COXI_FAILED;
    voiding->ending.code = code;
    voiding->ending.text = voiding->text;
}

/* Sets `touched` to the ps that have something of the closure; returns how many. */
static size_t list_holders(struct voiding *voiding)
{
    size_t n = 0;
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        if (voiding->told[p].n_segments > 0) {
            voiding->touched[n++] = p;
        }
    }
    return n;
}

/* True if a ps was lost before it answered. */
static bool met_lost(const struct voiding *voiding)
{
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        if (voiding->answers[p].code == COX_EPSLOST) {
            return true;
        }
    }
    return false;
}

/* True if some ps has its last segment: its step has returned. */
static bool has_returned(const struct voiding *voiding)
{
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        const struct coxi_told *told = &voiding->told[p];
        if (told->n_segments > 0 && told->segments[told->n_segments - 1].last) {
            return true;
        }
    }
    return false;
}

/* True if nobody needs its results: neither a user, nor a call that takes them, nor a
 * callback, nor a data set, which counts the records that its steps have read. */
static bool is_nobodys(const struct coxi_closure *closure)
{
    return closure->task == NULL &&
           atomic_load_explicit(&closure->future.refs, memory_order_relaxed) == 1;
}

/* Fails the closure, because it cannot run again for its results. It is logged all the
 * same: a restored ps still needs it. */
static void tell_lost_results(struct voiding *voiding)
{
    char why[COXI_TEXT_MAX];
    (void)snprintf(why, sizeof(why), "%s",
                   *voiding->text != '\0' ? voiding->text
                                          : coxi_strerror(voiding->ending.code));
    (void)snprintf(voiding->text, sizeof(voiding->text),
                   "all its updates are applied, but its results were lost with its "
                   "worker, and it could not run again for them: %.380s",
                   why);
    voiding->closure->effect.applied = true;
    voiding->ending = (struct coxi_ending){.state = COXI_FAILED,
                                           .code = COX_EREPLAY,
                                           .text = voiding->text,
                                           .touched = voiding->touched,
                                           .n_touched = list_holders(voiding)};
}

/* All of it is applied. */
static void be_done(struct voiding *voiding)
{
    const struct coxi_closure *closure = voiding->closure;
    if (closure->kept != NULL || is_nobodys(closure)) {
        voiding->ending = (struct coxi_ending){.state = COXI_DONE_OK,
                                               .touched = voiding->touched,
                                               .n_touched = list_holders(voiding)};
    } else if (closure->effect.applied || closure->future.c->phase.closing) {
        tell_lost_results(voiding);
    } else {
        voiding->again = true;
    }
}

/* An older client had settled it as done. A ps that has it may be unable to say so,
 * because it lies below that ps's watermark. */
static void tell_undone(struct voiding *voiding)
{
    struct coxi_ending *ending = &voiding->ending;
    char why[COXI_TEXT_MAX];
    (void)snprintf(why, sizeof(why), "%s",
                   *voiding->text != '\0' ? voiding->text
                                          : coxi_strerror(ending->code));
    (void)snprintf(voiding->text, sizeof(voiding->text),
                   "the client before this one had done it; it had to run again for a "
                   "ps that lacked it in the checkpoint, and failed: %.300s",
                   why);
    ending->state = COXI_FAILED;
    ending->code = COX_EREPLAY;
    ending->text = voiding->text;
}

static void judge(struct voiding *voiding)
{
    struct coxi_ending *ending = &voiding->ending;
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        if (voiding->answers[p].code != 0) {
            voiding->closure->effect.applied = false;
            voiding->closure->effect.unknown = true;
            ending->state = COXI_FAILED;
            ending->code = voiding->answers[p].code;
            ending->text = voiding->answers[p].text;
            return;
        }
    }
    enum coxi_tally tally = coxi_tally(voiding->told, voiding->n_ps);
    voiding->closure->effect.applied &= tally == COXI_TALLY_ALL;
    bool diverged = tally == COXI_TALLY_UNLIKE || ending->code == COX_EDIVERGED;
    if (ending->state == COXI_DONE_OK) {
        if (diverged || is_elsewhere(voiding)) {
            tell_partial(voiding, COX_EDIVERGED);
        }
    } else if (tally == COXI_TALLY_ALL) {
        be_done(voiding);
    } else if (tally == COXI_TALLY_PART && ending->code == COX_ELOST &&
               has_returned(voiding)) {
        voiding->goes_on = true;
    } else if (voiding->closure->older.was_done && !voiding->c->phase.closing) {
        tell_undone(voiding);
    } else if (tally != COXI_TALLY_NOTHING) {
        tell_partial(voiding, diverged ? COX_EDIVERGED : COX_EPARTIAL);
    }
}

/* True if a ps was lost after the question: it comes back as of a checkpoint, so its
 * answer does not count, and all ps are asked again when it is back. */
static bool is_outdated(const struct voiding *voiding)
{
    return coxi_ps_may_return(voiding->c) &&
           (met_lost(voiding) || coxi_ps_losses(voiding->c) != voiding->n_losses);
}

/* True if the closure was done, but a ps has come back without it, at a time when
 * recovery could not know yet that the ps lacked it. */
static bool is_undone(const struct voiding *voiding)
{
    const struct coxi_ending *ending = &voiding->ending;
    return ending->state == COXI_DONE_OK &&
           coxi_ps_is_stale(voiding->closure->future.c,
                            voiding->closure->attempts.epoch, ending->touched,
                            ending->n_touched);
}

/* Tells who asked whether some ps has something of the closure. */
static void tell(struct voiding *voiding)
{
    struct cox_coordinator *c = voiding->c;
    bool applied = false;
    for (uint32_t p = 0; p < voiding->n_ps; p++) {
        const struct answer *answer = &voiding->answers[p];
        applied = applied || voiding->told[p].n_segments > 0;
        if (answer->code != 0 && answer->code != COX_EPSLOST) {
            coxi_fatal(c, answer->code, answer->text);
        }
    }
    bool again = is_outdated(voiding) && !c->phase.shutting_down && !c->ps.over;
    voiding->told_of(voiding->closure, again     ? COXI_VOID_UNKNOWN
                                       : applied ? COXI_VOID_APPLIED
                                                 : COXI_VOID_NOTHING);
}

static void finish(struct coxi_mail *mail)
{
    struct voiding *voiding = (struct voiding *)mail;
    if (voiding->told_of != NULL) {
        tell(voiding);
    } else if (is_outdated(voiding)) {
        voiding->c->closures->events->void_later(voiding->closure, &voiding->ending);
    } else if (is_undone(voiding)) {
        coxi_closure_run_again(voiding->closure);
    } else {
        judge(voiding);
        if (voiding->goes_on) {
            voiding->closure->mishaps.losses = 0;
            coxi_closure_run_again(voiding->closure);
        } else if (voiding->again) {
            coxi_closure_run_for_results(voiding->closure);
        } else {
            coxi_closure_settle(voiding->closure, &voiding->ending);
        }
    }
    coxi_loop_wake_after_mail(voiding->c->loop);
    voiding_free(voiding);
}

/* ---- asking */

static void answered(struct voiding *voiding)
{
    if (atomic_fetch_sub(&voiding->n_pending, 1) == 1) {
        voiding->mail.run = finish;
        coxi_loop_post(voiding->c->loop, &voiding->mail);
    }
}

static int keep(struct coxi_told *told, const struct coxi_voided *voided)
{
    size_t bytes = voided->n_segments * sizeof(*voided->segments);
    size_t touched_bytes = voided->n_touched * sizeof(*voided->touched);
    if (voided->n_segments == 0) {
        return 0;
    }
    told->segments = malloc(bytes);
    told->touched = malloc(touched_bytes + 1);
    if (told->segments == NULL || told->touched == NULL) {
        return coxi_error_memory("what a ps has applied");
    }
    memcpy(told->segments, voided->segments, bytes);
    if (touched_bytes > 0) {
        memcpy(told->touched, voided->touched, touched_bytes);
    }
    told->n_segments = voided->n_segments;
    return 0;
}

static void note(struct answer *answer, int code, const char *text)
{
    answer->code = code;
    (void)snprintf(answer->text, sizeof(answer->text), "%s", text);
}

/* On a thread of the ps client. */
static void on_answer(struct coxi_psc_request *request, int code,
                      const struct coxi_message *message, void *payload, size_t len)
{
    struct answer *answer = (struct answer *)request;
    struct voiding *voiding = answer->voiding;
    (void)payload;
    (void)len;
    if (code != 0) {
        note(answer, code, coxi_error_text());
    } else if (message->kind != COXI_VOIDED) {
        note(answer, COX_EPROTO, "a ps answered a void with something else");
    } else if (message->voided.code != 0) {
        note(answer, message->voided.code, message->voided.message);
    } else if (keep(&voiding->told[answer - voiding->answers], &message->voided) != 0) {
        note(answer, COX_ENOMEM, coxi_error_text());
    }
    answered(voiding);
}

int coxi_voiding_start(struct cox_coordinator *c, struct coxi_closure *closure,
                       const struct coxi_ending *ending,
                       void (*told)(struct coxi_closure *closure,
                                    enum coxi_void_outcome outcome))
{
    struct voiding *voiding =
        calloc(1, sizeof(*voiding) + c->ps.n * sizeof(*voiding->answers));
    struct coxi_told *tellings = calloc(c->ps.n, sizeof(*tellings));
    uint32_t *touched = calloc(ending->n_touched + c->ps.n, sizeof(*touched));
    if (voiding == NULL || tellings == NULL || touched == NULL) {
        free(voiding);
        free(tellings);
        free(touched);
        return coxi_error_memory("the end of a closure");
    }
    if (ending->n_touched > 0) {
        memcpy(touched, ending->touched, ending->n_touched * sizeof(*touched));
    }
    voiding->c = c;
    voiding->closure = closure;
    voiding->told_of = told;
    voiding->ending = *ending;
    voiding->touched = touched;
    voiding->told = tellings;
    voiding->ending.touched = touched;
    if (ending->text != NULL) {
        (void)snprintf(voiding->text, sizeof(voiding->text), "%s", ending->text);
        voiding->ending.text = voiding->text;
    }
    voiding->n_ps = c->ps.n;
    voiding->n_losses = coxi_ps_losses(c);
    c->closures->voids_held = true;
    atomic_init(&voiding->n_pending, c->ps.n + 1);
    struct coxi_message message = {.kind = COXI_VOID};
    message.void_ = (struct coxi_void){.session = c->session,
                                       .closure = closure->future.id.n,
                                       .attempt = closure->attempts.last};
    for (uint32_t p = 0; p < c->ps.n; p++) {
        struct answer *answer = &voiding->answers[p];
        answer->voiding = voiding;
        answer->request.done = on_answer;
        message.void_.incarnation = coxi_psc_incarnation(c->ps.clients[p]);
        int r = coxi_psc_submit_now(c->ps.clients[p], &message, &answer->request, true);
        if (r != 0) {
            note(answer, r, coxi_error_text());
            answered(voiding);
        }
    }
    answered(voiding);
    return 0;
}

void coxi_voidings_flush(struct cox_coordinator *c)
{
    for (uint32_t p = 0; c->closures->voids_held && p < c->ps.n; p++) {
        coxi_psc_flush(c->ps.clients[p]);
    }
    c->closures->voids_held = false;
}
