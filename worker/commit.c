/*
 * What an attempt commits: a segment with each flush, and one marked as the last when
 * its step has returned. If a step has flushed and collected nothing since, the last
 * segment is an empty commit to one of the ps that have the segment before. So the
 * answers of the ps about a closure show whether all of it is applied.
 *
 * The thread that takes the number of pending acknowledgements to 0 reports the
 * attempt. While the slot submits the last segment, it counts as one pending
 * acknowledgement itself. After any other segment the slot waits.
 *
 * Threads: a slot; acknowledgements come on a ps client's thread.
 */
#include "worker/commit.h"

#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "worker/overflow.h"

/* ---- acknowledgements */

/* Takes one off the pending acknowledgements (the slot may hold one itself). If none is
 * left, reports the attempt. */
static void acknowledged(struct coxi_attempt *attempt, int code, const char *text)
{
    if (coxi_attempt_answered(attempt, &attempt->commits, code, text)) {
        attempt->code = attempt->commits.code;
        attempt->commits.code = 0;
        memcpy(attempt->code_text, attempt->commits.text, sizeof(attempt->code_text));
        coxi_attempt_end(attempt, true);
    }
}

/* The outcome of a commit, from the ps's answer. */
static int commit_code(int code, const struct coxi_message *answer,
                       const char **ret_text)
{
    *ret_text = code != 0 ? coxi_error_text() : "";
    if (code == 0 && answer->kind != COXI_COMMITTED) {
        code = COX_EPROTO;
        *ret_text = "the ps answered a commit with something else";
    } else if (code == 0) {
        code = answer->status.code;
        *ret_text = answer->status.message;
    }
    return code;
}

static void commit_done(struct coxi_psc_request *request, int code,
                        const struct coxi_message *answer, void *payload, size_t len)
{
    (void)payload;
    (void)len;
    const char *text;
    struct coxi_attempt *attempt = ((struct coxi_target *)request)->attempt;
    code = commit_code(code, answer, &text);
    if (code == 0 && answer->status.ended) {
        atomic_store(&attempt->round_ended, true);
    }
    acknowledged(attempt, code, text);
}

static void flush_done(struct coxi_psc_request *request, int code,
                       const struct coxi_message *answer, void *payload, size_t len)
{
    (void)payload;
    (void)len;
    const char *text;
    code = commit_code(code, answer, &text);
    struct coxi_attempt *attempt = ((struct coxi_target *)request)->attempt;
    (void)coxi_attempt_answered(attempt, &attempt->commits, code, text);
}

/* Lists the ps of the current segment in attempt->touched; returns how many. */
static size_t list_touched(struct coxi_attempt *attempt)
{
    size_t n = 0;
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        if (attempt->targets[p].updates.len > 0) {
            attempt->touched[n++] = p;
        }
    }
    return n;
}

/* What the only ps of a closure must know to end its round. */
static struct coxi_share share_of(const struct coxi_attempt *attempt)
{
    const struct coxi_round_head *round = &attempt->call.round;
    return (struct coxi_share){round->n, round->mean != 0, attempt->weight,
                               round->after};
}

/* Commits the segment to the first n_touched ps of attempt->touched. The last segment
 * ends in commit_done; for any other the slot waits. */
static void submit_segment(struct coxi_attempt *attempt, size_t n_touched, bool last)
{
    if (attempt->overflowed) {
        coxi_overflow_skip(attempt);
    }
    attempt->commits.n_pending = (uint32_t)n_touched + (last ? 1 : 0);
    bool is_all = last && attempt->segment == 0 && n_touched == 1;
    const struct coxi_share share = is_all ? share_of(attempt) : (struct coxi_share){0};
    for (size_t i = 0; i < n_touched; i++) {
        uint32_t ps = attempt->touched[i];
        struct coxi_target *target = &attempt->targets[ps];
        uint64_t begun_ns = coxi_trace_begin();
        struct coxi_message message = {.kind = COXI_COMMIT};
        message.commit = (struct coxi_commit){
            .session = attempt->run->session,
            .incarnation = coxi_run_incarnation(attempt->run, ps, attempt->layouts),
            .closure = attempt->head.closure,
            .attempt = attempt->head.attempt,
            .segment = attempt->segment,
            .last = last,
            .touched = attempt->touched,
            .n_touched = n_touched,
            .updates = (const struct coxi_update *)(void *)target->updates.data,
            .n_updates = target->updates.len / sizeof(struct coxi_update),
            .pulled = (const uint64_t *)(void *)target->pulled.data,
            .n_pulled = target->pulled.len / sizeof(uint64_t),
            .step = attempt->rate_step,
            .loss_scale = attempt->loss_scale,
            .round = attempt->call.round.round,
            .share = share,
            .flow = coxi_trace_flow(begun_ns),
        };
        target->touched = true;
        target->segment =
            (struct iovec){target->update_payload.data, target->update_payload.len};
        target->request = (struct coxi_psc_request){
            .payload = &target->segment,
            .n_payload = 1,
            .done = last ? commit_done : flush_done,
        };
        int r = coxi_psc_submit(attempt->run->ps[ps], &message, &target->request, last);
        coxi_attempt_trace_ask(attempt, begun_ns, COXI_TRACE_COMMIT_ASK, ps,
                               message.commit.flow);
        if (r != 0 && last) {
            acknowledged(attempt, r, coxi_error_text());
        } else if (r != 0) {
            (void)coxi_attempt_answered(attempt, &attempt->commits, r,
                                        coxi_error_text());
        }
    }
}

static bool window_is_full(const struct coxi_run *run) COXI_REQUIRES(run->lock)
{
    return run->n_committing >= run->options.commit_window;
}

/* Waits for a place in the commit window; false: it was cancelled before. */
static bool wait_for_place(struct coxi_run *run, struct coxi_running *running)
    COXI_REQUIRES(run->lock)
{
    struct coxi_patience patience = {0};
    atomic_store(&running->state, COXI_RUN_RETURNED);
    /* Each commit ends, at the latest by its deadline (coxi_psc_tick). */
    while (window_is_full(run) && !coxi_running_cancelled(running)) {
        coxi_unlock(&run->lock);
        coxi_run_flush(run);
        coxi_lock(&run->lock);
        if (window_is_full(run) && !coxi_running_cancelled(running)) {
            if (coxi_patience_wait(&patience, &run->room, &run->lock)) {
                coxi_log(COXI_LOG_WARN, "commit_waits",
                         "for=ps n_commits=%zu seconds=%llu", (size_t)run->n_committing,
                         (unsigned long long)coxi_patience_seconds(&patience,
                                                                   coxi_now_ms()));
            }
        }
    }
    if (coxi_running_end(running) == COXI_RUN_RETURNED) {
        return true;
    }
    (void)pthread_cond_signal(&run->room); /* leave the place to another attempt */
    return false;
}

static bool enter_window(struct coxi_attempt *attempt)
{
    struct coxi_run *run = attempt->run;
    coxi_lock(&run->lock);
    bool waits = window_is_full(run);
    bool entered = !waits || wait_for_place(run, attempt->running);
    if (entered) {
        run->n_committing++;
    }
    coxi_unlock(&run->lock);
    if (waits) {
        coxi_add_since(&attempt->times.place_us, attempt->returned_ns);
        coxi_attempt_trace(attempt, attempt->returned_ns, COXI_TRACE_PLACE);
        attempt->returned_ns = attempt->running->free_ns = coxi_now_ns();
    }
    return entered;
}

bool coxi_commit_last(struct coxi_attempt *attempt)
{
    size_t n_touched = list_touched(attempt);
    if (n_touched == 0 && attempt->segment == 0) {
        return false;
    }
    if (n_touched == 0) {
        attempt->touched[n_touched++] = attempt->last_ps;
    }
    if (!enter_window(attempt)) {
        attempt->code = COX_ECANCELLED;
        (void)strcpy(attempt->code_text, "cancelled before it was committed");
        coxi_attempt_end(attempt, false);
        return true;
    }
    submit_segment(attempt, n_touched, true);
    acknowledged(attempt, 0, "");
    return true;
}

int coxi_commit_flush(struct coxi_attempt *attempt)
{
    if (attempt->broken != 0) {
        /* A part of an update might be committed; or a flush failed before. */
        return coxi_error(attempt->broken, "%s", attempt->broken_text);
    }
    if (coxi_attempt_check(attempt) != 0) {
        return COX_ECANCELLED;
    }
    size_t n_touched = list_touched(attempt);
    if (n_touched == 0) {
        return 0;
    }
    if (attempt->segment + 1 == COXI_SEGMENTS_MAX) { /* the last segment's number */
        return coxi_attempt_break(
            attempt,
            coxi_error(COX_ELIMIT,
                       "a step can flush %d times: do more between two flushes",
                       COXI_SEGMENTS_MAX - 1));
    }
    coxi_run_flush_reports(attempt->run); /* this may take a while */
    attempt->last_ps = attempt->touched[0];
    submit_segment(attempt, n_touched, false);
    int r = coxi_attempt_wait(attempt, &attempt->commits, &attempt->times.flush_us);
    if (r != 0) {
        attempt->lost = coxi_attempt_break(attempt, r);
    }
    coxi_attempt_drop(attempt);
    attempt->segment++;
    return r;
}
