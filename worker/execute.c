/*
 * See execute.h. An attempt object is used over and over: its buffers keep their
 * memory.
 *
 * States:
 *   RUNNING (slot) -> COMMITTING (commit.c; acknowledgements to come) -> reported
 *   RUNNING -> FLUSHING (commit.c; the slot waits for them) -> RUNNING
 *   RUNNING -> reported, if the step failed, was cancelled or touched nothing
 *
 * An attempt can be cancelled (worker/attempt.h) until it has a place in the commit
 * window; from then on it commits, and cannot be cancelled. A step that fails or is
 * cancelled reports what its flushes have touched.
 */
#include "worker/execute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/run_place.h"
#include "common/sync.h"
#include "common/trace.h"
#include "worker/batches.h"
#include "worker/commit.h"
#include "worker/loss_scale.h"
#include "worker/pull.h"
#include "worker/step_api.h"

/* ---- attempts and scratch, new or used again */

static struct coxi_attempt *attempt_of(struct coxi_spare *spare)
{
    char *at = (char *)spare - offsetof(struct coxi_attempt, spare);
    return (struct coxi_attempt *)(void *)at;
}

static void attempt_free(struct coxi_spare *spare)
{
    struct coxi_attempt *attempt = attempt_of(spare);
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        struct coxi_target *target = &attempt->targets[p];
        coxi_buffer_fini(&target->updates);
        coxi_buffer_fini(&target->pulled);
        coxi_buffer_fini(&target->update_payload);
        coxi_buffer_fini(&target->gradients);
    }
    coxi_buffer_fini(&attempt->metrics);
    coxi_buffer_fini(&attempt->results);
    coxi_buffer_fini(&attempt->scalars);
    coxi_buffer_fini(&attempt->used);
    (void)pthread_cond_destroy(&attempt->answered);
    coxi_mutex_fini(&attempt->lock);
    free(attempt);
}

static int attempt_new(struct coxi_run *run, struct coxi_spare **ret)
{
    struct coxi_attempt *attempt =
        calloc(1, sizeof(*attempt) + run->n_ps * (sizeof(*attempt->targets) +
                                                  sizeof(*attempt->touched)));
    if (attempt == NULL) {
        return coxi_error_memory("an attempt");
    }
    attempt->spare.free = attempt_free;
    attempt->step.api = &coxi_step_api;
    attempt->run = run; /* no reference, because the run owns its spare attempts */
    attempt->n_targets = run->n_ps;
    attempt->touched = (uint32_t *)(void *)&attempt->targets[run->n_ps];
    coxi_mutex_init(&attempt->lock);
    coxi_cond_init(&attempt->answered);
    for (uint32_t p = 0; p < run->n_ps; p++) {
        attempt->targets[p].attempt = attempt;
    }
    *ret = &attempt->spare;
    return 0;
}

static void scratch_free(struct coxi_spare *spare)
{
    struct coxi_scratch *scratch = (struct coxi_scratch *)spare;
    coxi_pulls_free(scratch);
    coxi_spread_fini(&scratch->spread);
    coxi_buffer_fini(&scratch->places);
    coxi_versions_fini(&scratch->versions);
    coxi_bases_fini(&scratch->bases);
    coxi_row_stores_fini(&scratch->sums);
    coxi_row_stores_fini(&scratch->copies);
    coxi_row_stores_fini(&scratch->merged);
    coxi_buffer_fini(&scratch->row_work.list);
    coxi_buffer_fini(&scratch->row_work.numbers);
    coxi_buffer_fini(&scratch->local_calls);
    coxi_buffer_fini(&scratch->local_pulls);
    free(scratch);
}

static int scratch_new(struct coxi_spare **ret)
{
    struct coxi_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL) {
        return coxi_error_memory("an attempt");
    }
    scratch->spare.free = scratch_free;
    *ret = &scratch->spare;
    return 0;
}

/* Keeps an attempt and a scratch to use again; each may be NULL. */
static void put_spares(struct coxi_run *run, struct coxi_spare *attempt,
                       struct coxi_spare *scratch)
{
    coxi_lock(&run->lock);
    if (attempt != NULL) {
        coxi_spare_put(&run->spare_attempts, attempt);
    }
    if (scratch != NULL) {
        coxi_spare_put(&run->spare_scratches, scratch);
    }
    coxi_unlock(&run->lock);
}

/* Gives back the scratch when the step has returned, without the rows that it kept. */
static void give_back_scratch(struct coxi_attempt *attempt)
{
    struct coxi_scratch *scratch = attempt->scratch;
    coxi_row_stores_reset(&scratch->sums, scratch->budget.bytes_max);
    coxi_row_stores_reset(&scratch->copies, scratch->budget.bytes_max);
    put_spares(attempt->run, NULL, &attempt->scratch->spare);
    attempt->scratch = NULL;
}

/* An attempt, with scratch for its step. */
static int attempt_take(struct coxi_run *run, struct coxi_attempt **ret)
{
    coxi_lock(&run->lock);
    struct coxi_spare *scratch = coxi_spare_take(&run->spare_scratches);
    struct coxi_spare *spare = coxi_spare_take(&run->spare_attempts);
    coxi_unlock(&run->lock);
    int r = scratch == NULL ? scratch_new(&scratch) : 0;
    if (r == 0 && spare == NULL) {
        r = attempt_new(run, &spare);
    }
    if (r != 0) {
        put_spares(run, spare, scratch);
        return r;
    }
    *ret = attempt_of(spare);
    (*ret)->scratch = (struct coxi_scratch *)scratch;
    coxi_versions_begin(&(*ret)->scratch->versions);
    coxi_bases_begin(&(*ret)->scratch->bases);
    (*ret)->scratch->budget =
        (struct coxi_row_budget){.bytes_max = run->options.step_rows_max};
    return 0;
}

/* ---- running */

/* Sets what a step takes from its closure's place in the run. Its own id and the run's
 * are not the same in every run, so a closure of deterministic rounds has a place. */
static void set_place(struct coxi_attempt *attempt, const struct coxi_call *call)
{
    uint64_t closure = attempt->head.closure;
    struct coxi_run_place place;
    if (!coxi_run_place_read(call->args, call->args_len, &place)) {
        place.seed = coxi_hash_key(attempt->run->session.run ^ coxi_hash_key(closure));
        place.step = closure - atomic_load(&attempt->run->first);
    }
    attempt->seed = place.seed;
    attempt->rate_step = place.step;
}

static void attempt_reset(struct coxi_attempt *attempt, struct coxi_running *running,
                          const struct coxi_closure_head *head,
                          const struct coxi_call *call)
{
    attempt->running = running;
    attempt->layouts = running->layouts;
    attempt->head = *head;
    set_place(attempt, call);
    attempt->call = *call;
    attempt->weight = 1;
    attempt->has_awaited = false;
    atomic_store(&attempt->round_ended, false);
    attempt->args_ready = false;
    attempt->results.len = 0;
    attempt->scalars.len = 0;
    attempt->n_scalars = 0;
    attempt->run_us = 0;
    attempt->times = (struct coxi_step_times){.slot = running->slot};
    attempt->step_code = 0;
    attempt->step_failed = false;
    attempt->broken = 0;
    attempt->broken_text[0] = '\0';
    attempt->lost = 0;
    attempt->n_pushes = 0;
    attempt->segment = 0;
    attempt->scale = NULL;
    attempt->loss_scale = 0;
    attempt->told = NULL;
    attempt->overflowed = false;
    attempt->overflow_text[0] = '\0';
    attempt->unread = 0;
    attempt->making = NULL;
    attempt->unmade = NULL;
    attempt->text[0] = '\0';
    attempt->code = 0;
    attempt->code_text[0] = '\0';
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        attempt->targets[p].touched = false;
    }
    coxi_attempt_drop(attempt);
}

/* Gives back resources and arguments when the step has returned. */
static void let_go(struct coxi_attempt *attempt)
{
    while (attempt->n_held > 0) {
        coxi_held_unref(attempt->held[--attempt->n_held]);
    }
    struct coxi_kept **used = (struct coxi_kept **)(void *)attempt->used.data;
    for (size_t i = 0; i < attempt->used.len / sizeof(struct coxi_kept *); i++) {
        coxi_resources_unuse(&attempt->run->resources, used[i]);
    }
    attempt->used.len = 0;
    attempt->unmade = NULL;
}

/* Sets the text of the failure: `why`, then the step's own text, if it gave one. */
static void explain(struct coxi_attempt *attempt, const char *why)
{
    (void)snprintf(attempt->code_text, sizeof(attempt->code_text), "%.400s%s%.90s", why,
                   attempt->step_failed ? "; the step: " : "",
                   attempt->step_failed ? attempt->text : "");
}

/*
 * Sets the attempt's code from what the step returned; nobody has cancelled it. A step
 * that did not succeed because a ps is lost, or because a resource is missing, has not
 * failed. A gradient that is not finite has a code of its own, too. The returned number
 * says nothing about these, because a step may return any number. The same holds for a
 * task that cannot be read; a record that is longer than readers take is COX_EFORMAT,
 * because COX_ELIMIT says that there was no room for what a step did.
 */
static void judge(struct coxi_attempt *attempt, int returned)
{
    if (returned == 0) {
        returned = attempt->broken;
    }
    if (returned == 0) {
        return;
    }
    if (!attempt->step_failed) {
        attempt->step_code = returned;
    }
    if (attempt->lost == 0 && attempt->unmade != NULL) {
        attempt->code = coxi_attempt_unmade(attempt);
        explain(attempt, coxi_error_text());
        return;
    }
    if (attempt->lost == 0 &&
        (attempt->broken == COX_ENONFINITE ||
         (attempt->unread != 0 && attempt->broken == attempt->unread))) {
        attempt->code = attempt->broken == COX_ELIMIT ? COX_EFORMAT : attempt->broken;
        explain(attempt, attempt->broken_text);
        return;
    }
    attempt->code = attempt->lost != 0 ? attempt->lost : COX_ESTEP;
    if (attempt->text[0] != '\0') {
        memcpy(attempt->code_text, attempt->text, sizeof(attempt->code_text));
    } else {
        (void)snprintf(attempt->code_text, sizeof(attempt->code_text),
                       "the step returned %d and gave no message", returned);
    }
}

static void note_time(struct coxi_function *function, uint32_t us)
{
    /*
     * An average over about 8 runs; at least 1, because 0 means that nothing is known.
     */
    unsigned old = atomic_load_explicit(&function->average_us, memory_order_relaxed);
    unsigned average = old == 0 ? us : (old * 7 + us) / 8;
    atomic_store_explicit(&function->average_us, average > 0 ? average : 1,
                          memory_order_relaxed);
}

/* Sets the code of a step that was cancelled while it ran: it has not succeeded, even
 * if it returned 0. */
static void judge_cancelled(struct coxi_attempt *attempt, enum coxi_running_state state,
                            const char *function)
{
    if (state == COXI_RUN_OVERRUN) {
        attempt->code = COX_EOVERRUN;
        (void)snprintf(attempt->code_text, sizeof(attempt->code_text),
                       "the step '%s' ran for more than %u ms", function,
                       attempt->head.timeout_ms);
    } else {
        attempt->code = COX_ECANCELLED;
        (void)snprintf(attempt->code_text, sizeof(attempt->code_text),
                       "the step '%s' was cancelled while it ran", function);
    }
    attempt->step_code = 0;
}

/* Notes when the step begins, and for how long its slot has had no closure of its run. */
static void note_start(struct coxi_attempt *attempt, uint64_t now_ns)
{
    const struct coxi_running *running = attempt->running;
    attempt->times.begin_us = now_ns / 1000;
    if (running->waited && running->free_ns > attempt->run->begun_ns) {
        attempt->times.idle_us = coxi_short_us(now_ns - running->free_ns);
    }
}

static void trace_step(const struct coxi_attempt *attempt, uint64_t start_ns)
{
    const struct coxi_closure_head *head = &attempt->head;
    coxi_trace_note(
        start_ns, attempt->returned_ns,
        &(struct coxi_trace_of){.kind = COXI_TRACE_STEP,
                                .arg = (uint32_t)head->module << 16 | head->function,
                                .run = attempt->run->session.run,
                                .closure = head->closure});
}

static void run_step(struct coxi_attempt *attempt, struct coxi_function *function)
{
    struct coxi_running *running = attempt->running;
    coxi_recorder_begin(running->recorder, &attempt->run->session, &attempt->head);
    uint64_t start = coxi_now_ns();
    note_start(attempt, start);
    atomic_store_explicit(&running->started_ns, start, memory_order_relaxed);
    attempt->function = function;
    int returned = function->run(&attempt->step);
    if (returned == 0) {
        coxi_step_returned(attempt);
    }
    coxi_pulls_end(attempt);
    if (attempt->batches != NULL && coxi_batches_end(attempt) != 0) {
        (void)coxi_attempt_break(attempt, COX_ENOMEM);
    }
    give_back_scratch(attempt);
    enum coxi_running_state state = coxi_running_end(running);
    coxi_recorder_end(running->recorder);
    attempt->returned_ns = running->free_ns = coxi_now_ns();
    attempt->run_us = coxi_short_us(running->free_ns - start);
    if (coxi_trace_is_on()) {
        trace_step(attempt, start);
    }
    if (coxi_attempt_is_watched(attempt)) {
        coxi_latency_add(&attempt->run->figures->steps, attempt->run_us);
    }
    if (attempt->making == NULL) {
        note_time(function, attempt->run_us);
    }
    if (state == COXI_RUN_RUNNING) {
        judge(attempt, returned);
    } else {
        judge_cancelled(attempt, state, function->name);
    }
    let_go(attempt);
}

/* Ends an attempt whose step is not run because it lacks an argument, as the error text
 * says. */
static void not_run(struct coxi_attempt *attempt, int code)
{
    (void)coxi_running_end(attempt->running);
    give_back_scratch(attempt);
    attempt->code = code;
    (void)snprintf(attempt->code_text, sizeof(attempt->code_text), "%s",
                   coxi_error_text());
    let_go(attempt);
}

/* Answers an attempt that cannot be started, for the reason in the error text. */
static void refuse(struct coxi_run *run, uint64_t closure, uint32_t attempt, int code)
{
    const char *text = coxi_error_text();
    struct coxi_report report = {.closure = closure,
                                 .attempt = attempt,
                                 .code = code,
                                 .result = text,
                                 .result_len = strlen(text) + 1};
    coxi_run_report(run, &report);
}

void coxi_execute_cancelled(struct coxi_run *run, uint64_t closure, uint32_t attempt)
{
    refuse(run, closure, attempt,
           coxi_error(COX_ECANCELLED, "cancelled before it started"));
}

uint32_t coxi_execute_closure(struct coxi_run *run, struct coxi_running *running,
                              const struct coxi_closure_head *head,
                              const struct coxi_call *call)
{
    struct coxi_attempt *attempt = NULL;
    if (coxi_running_cancelled(running)) {
        (void)coxi_running_end(running);
        coxi_execute_cancelled(run, head->closure, head->attempt);
        return 0;
    }
    struct coxi_function *function = coxi_run_function(run, head);
    int r = function == NULL ? COX_EMODULE : attempt_take(run, &attempt);
    if (r != 0) {
        (void)coxi_running_end(running);
        refuse(run, head->closure, head->attempt, r);
        return 0;
    }
    (void)coxi_run_ref(run);
    attempt_reset(attempt, running, head, call);
    r = coxi_step_arguments(attempt);
    if (r == 0) {
        run_step(attempt, function);
    } else {
        not_run(attempt, r);
    }
    if (attempt->code == 0 && (attempt->told != NULL || attempt->overflowed)) {
        attempt->code = attempt->step_code = coxi_loss_scale_end(attempt);
        (void)snprintf(attempt->code_text, sizeof(attempt->code_text), "%s",
                       attempt->code != 0 ? coxi_error_text() : "");
    }
    uint32_t us = attempt->run_us;
    if (attempt->code != 0 || !coxi_commit_last(attempt)) {
        coxi_attempt_end(attempt, false);
    }
    return us;
}

void coxi_execute_resource(struct coxi_run *run, struct coxi_running *running,
                           struct coxi_kept *kept)
{
    struct coxi_attempt *attempt = NULL;
    struct coxi_function *function = coxi_run_function(run, &kept->head);
    int r = function == NULL ? COX_EMODULE
            : coxi_running_cancelled(running)
                ? coxi_error(COX_ECANCELLED, "cancelled before it started")
                : attempt_take(run, &attempt);
    if (r != 0) {
        (void)coxi_running_end(running);
        coxi_run_made(run, kept, r, coxi_error_text());
        return;
    }
    (void)coxi_run_ref(run);
    attempt_reset(
        attempt, running, &kept->head,
        &(struct coxi_call){.args = kept->args.data, .args_len = kept->args.len});
    attempt->making = kept;
    run_step(attempt, function);
    coxi_run_made(run, kept, attempt->code, attempt->code_text);
    coxi_attempt_give_back(attempt, false);
}
