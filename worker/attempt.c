/* See attempt.h. */
#include "worker/attempt.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"

/* ---- answers */

/* A ps that does not answer in time counts as lost. */
static int ps_code(int code)
{
    return code == COX_ETIMEDOUT ? COX_EPSLOST : code;
}

bool coxi_attempt_answered(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           int code, const char *text)
{
    coxi_lock(&attempt->lock);
    if (code != 0 && answers->code == 0) {
        answers->code = ps_code(code);
        (void)snprintf(answers->text, sizeof(answers->text), "%s", text);
    }
    bool last = --answers->n_pending == 0;
    if (last) {
        (void)pthread_cond_signal(&attempt->answered);
    }
    coxi_unlock(&attempt->lock);
    return last;
}

void coxi_attempt_expect(struct coxi_attempt *attempt, struct coxi_answers *answers)
{
    coxi_lock(&attempt->lock);
    answers->n_pending++;
    coxi_unlock(&attempt->lock);
}

int coxi_attempt_wait(struct coxi_attempt *attempt, struct coxi_answers *answers,
                      uint32_t *waited_us)
{
    struct coxi_patience patience = {0};
    coxi_lock(&attempt->lock);
    uint64_t begun_ns = answers->n_pending > 0 ? coxi_now_ns() : 0;
    /* Each request ends, at the latest by its deadline (coxi_psc_tick). */
    while (answers->n_pending > 0) {
        if (coxi_patience_wait(&patience, &attempt->answered, &attempt->lock)) {
            coxi_log(
                COXI_LOG_WARN, "step_waits",
                "closure=%llu for=ps n_requests=%zu seconds=%llu run=%016llx",
                (unsigned long long)attempt->head.closure, (size_t)answers->n_pending,
                (unsigned long long)coxi_patience_seconds(&patience, coxi_now_ms()),
                (unsigned long long)attempt->run->session.run);
        }
    }
    int r = answers->code;
    answers->code = 0;
    coxi_unlock(&attempt->lock);
    if (begun_ns != 0) {
        coxi_add_since(waited_us, begun_ns);
        coxi_attempt_trace(attempt, begun_ns,
                           waited_us == &attempt->times.pull_us ? COXI_TRACE_PULL_WAIT
                                                                : COXI_TRACE_FLUSH);
    }
    return r == 0 ? 0 : coxi_error(r, "%s", answers->text);
}

int coxi_attempt_await_end(struct coxi_attempt *attempt, struct coxi_answers *answers,
                           uint32_t *waited_us)
{
    atomic_uint_least64_t *started_ns = &attempt->running->started_ns;
    attempt->has_awaited = true;
    atomic_store_explicit(started_ns, 0, memory_order_relaxed);
    int r = coxi_attempt_wait(attempt, answers, waited_us);
    atomic_store_explicit(started_ns, coxi_now_ns(), memory_order_relaxed);
    return r;
}

int coxi_attempt_check(struct coxi_attempt *attempt)
{
    return coxi_running_cancelled(attempt->running)
               ? coxi_error(COX_ECANCELLED, "the step is cancelled")
               : 0;
}

int coxi_attempt_break(struct coxi_attempt *attempt, int code)
{
    if (attempt->broken == 0) {
        attempt->broken = code;
        (void)snprintf(attempt->broken_text, sizeof(attempt->broken_text), "%s",
                       coxi_error_text());
    }
    return code;
}

/* ---- its end */

int coxi_attempt_unmade(const struct coxi_attempt *attempt)
{
    return coxi_error(COX_ERESOURCE, "resource '%s' could not be made on worker %u: %s",
                      attempt->unmade->name, attempt->run->options.worker,
                      attempt->unmade->text);
}

void coxi_attempt_drop(struct coxi_attempt *attempt)
{
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        attempt->targets[p].updates.len = 0;
        attempt->targets[p].pulled.len = 0;
        attempt->targets[p].update_payload.len = 0;
        attempt->targets[p].gradients.len = 0;
    }
    attempt->metrics.len = 0;
}

/* Counts the attempt for those who watch the worker. */
static void count(const struct coxi_attempt *attempt, bool committed)
{
    struct coxi_figures *figures = attempt->run->figures;
    if (coxi_attempt_is_watched(attempt)) {
        (void)atomic_fetch_add(attempt->code == 0 ? &figures->done : &figures->failed,
                               1);
        if (committed) {
            coxi_latency_add(&figures->commits, attempt->times.commit_us);
        }
    }
}

void coxi_attempt_give_back(struct coxi_attempt *attempt, bool committed)
{
    struct coxi_run *run = attempt->run;
    coxi_lock(&run->lock);
    coxi_spare_put(&run->spare_attempts, &attempt->spare);
    if (committed) {
        coxi_least_note(&run->commit_us,
                        attempt->returned_ns / 1000 + attempt->times.commit_us,
                        attempt->times.commit_us);
        run->n_committing--;
        (void)pthread_cond_signal(&run->room);
    }
    coxi_unlock(&run->lock);
    coxi_run_unref(run);
}

void coxi_attempt_end(struct coxi_attempt *attempt, bool committed)
{
    struct coxi_run *run = attempt->run;
    if (committed) {
        coxi_add_since(&attempt->times.commit_us, attempt->returned_ns);
    }
    struct coxi_report report = {
        .closure = attempt->head.closure,
        .attempt = attempt->head.attempt,
        .code = attempt->code,
        .step_code = attempt->step_code,
        .run_us = attempt->run_us,
        .weight = attempt->weight,
        .ended = atomic_load(&attempt->round_ended),
        .times = &attempt->times,
        .touched = attempt->touched,
        .result = attempt->code == 0 ? (const void *)attempt->results.data
                                     : attempt->code_text,
        .result_len =
            attempt->code == 0 ? attempt->results.len : strlen(attempt->code_text) + 1,
    };
    if (attempt->code == 0) {
        report.scalars = attempt->scalars.data;
        report.scalars_len = attempt->scalars.len;
    }
    uint64_t bytes = attempt->results.len;
    if (attempt->code == 0 && attempt->call.keep && bytes > 0 &&
        coxi_results_keep(&run->results, report.closure, report.attempt,
                          &attempt->results)) {
        report.kept = true;
        report.result = &bytes;
        report.result_len = sizeof(bytes);
    }
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        if (attempt->targets[p].touched) {
            attempt->touched[report.n_touched++] = p;
        }
    }
    count(attempt, committed);
    coxi_run_report(run, &report);
    coxi_attempt_give_back(attempt, committed);
}
