/* Steps that do not return when they are cancelled: their process ends, and the client
 * gets a report. */
#include <signal.h>
#include <stdio.h>

#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/process.h"

enum { GRACE_MS = 50, LONG_MS = 60000 };

/* A step `step` that runs when this returns. */
static int start(struct caller *caller, uint64_t closure, const char *step,
                 const char *path, uint32_t timeout_ms, uint32_t grace_ms)
{
    const struct worker_call call = {closure, 1, step, NULL, timeout_ms, grace_ms};
    return worker_dispatch_to_gate(caller, &call, path);
}

static void recall(struct caller *caller, uint64_t closure, uint32_t grace_ms)
{
    const struct coxi_recall_head head = {closure, 1, 0};
    struct coxi_message message = {.kind = COXI_RECALL};
    message.recall = (struct coxi_recall){&head, 1, false, true, grace_ms};
    caller_send(caller, &message, NULL, 0);
}

/* ---- cancelled by the client */

TEST(a_cancelled_step_that_does_not_return_is_ended_with_its_process)
{
    struct worker w;
    worker_open(&w, "--slots=2", NULL);
    struct caller *caller = worker_join_ready(&w);
    int gates[2];
    gates[0] = start(caller, 1, "wait_at", gate_make("gate-1"), 0, LONG_MS);
    gates[1] = start(caller, 2, "wait_at", gate_make("gate-2"), 0, LONG_MS);
    recall(caller, 1, GRACE_MS);
    worker_expect_crash(&w, caller);
    gate_release(gates[0]);
    gate_release(gates[1]);
    program_assert_printed(&w.program, "event=step_not_returned closure=1 attempt=1 "
                                       "function=wait_at after=cancel");
    program_assert_printed(&w.program, "event=step_process_died signal=9");
    /* the client has cancelled 1 itself, and 2 is not to blame */
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(a_cancelled_step_that_returns_is_answered_by_the_same_process)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_cancelled", gate_make("gate"), 0, LONG_MS);
    recall(caller, 1, LONG_MS);
    worker_expect_done(caller, 1, COX_ECANCELLED);
    gate_release(gate);
    caller_close(caller);
    worker_expect_no_report(&w);
    assert_int_equal(0, kill(w.step_process, 0));
    worker_close(&w);
}

TEST(a_recall_of_another_attempt_ends_nothing)
{
    static const struct coxi_recall_head others[] = {{1, 2, 0}, {2, 1, 0}};
    struct coxi_message message = {.kind = COXI_RECALL};
    message.recall = (struct coxi_recall){others, 2, false, true, 1};
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_at", gate_make("gate"), 0, GRACE_MS);
    caller_send(caller, &message, NULL, 0);
    gate_release(gate);
    worker_expect_done(caller, 1, 0);
    caller_close(caller);
    worker_close(&w);
}

/* ---- past its deadline */

TEST(a_step_that_overruns_and_does_not_return_is_reported_alone)
{
    struct worker w;
    worker_open(&w, "--slots=2", NULL);
    struct caller *caller = worker_join_ready(&w);
    int gates[2];
    gates[0] = start(caller, 1, "wait_at", gate_make("gate-1"), 0, GRACE_MS);
    gates[1] = start(caller, 2, "wait_at", gate_make("gate-2"), 30, GRACE_MS);
    const struct coxi_crashed *early = &caller_expect(caller, COXI_CRASHED)->crashed;
    assert_int_equal(1, early->n_closures); /* reported before its process ends */
    assert_int_equal(2, early->closures[0].closure);
    assert_int_equal(1, early->closures[0].attempt);
    assert_int_equal(COXI_CAUSE_OVERRUN, early->closures[0].cause);
    worker_expect_crash(&w, caller);
    gate_release(gates[0]);
    gate_release(gates[1]);
    program_assert_printed(&w.program,
                           "event=step_not_returned closure=2 attempt=1 "
                           "function=wait_at after=timeout timeout_ms=30 grace_ms=50");
    worker_expect_report(&w, 2, 1, COXI_CAUSE_OVERRUN);
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(a_step_that_overruns_and_returns_is_answered_by_the_same_process)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_cancelled", gate_make("gate"), 30, LONG_MS);
    worker_expect_done(caller, 1, COX_EOVERRUN);
    gate_release(gate);
    caller_close(caller);
    worker_expect_no_report(&w);
    assert_int_equal(0, kill(w.step_process, 0));
    worker_close(&w);
}

/* ---- too much memory */

enum { TOO_MUCH = 256 * 1024 * 1024 };

static const int64_t too_much = TOO_MUCH;
static const struct cox_value hoarded = COX_SCALAR("bytes", COX_I64, &too_much);
static const struct worker_call hoard = {7, 2, "hoard", &hoarded, 0, 0};

TEST(a_step_with_too_much_memory_is_reported)
{
    struct worker w;
    worker_open(&w, "--step-memory-max=256M", NULL);
    struct caller *caller = worker_join_ready(&w);
    worker_dispatch(caller, &(struct worker_call){1, 1, "nothing", NULL, 0, 0});
    worker_expect_done(caller, 1, 0);
    worker_dispatch(caller, &hoard);
    worker_expect_crash(&w, caller);
    program_assert_printed(&w.program, "event=step_memory bytes=");
    program_assert_printed(&w.program, " max=268435456 closures=7/2\n");
    worker_expect_report(&w, 7, 2, COXI_CAUSE_MEMORY);
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(all_steps_that_run_are_reported_for_too_much_memory)
{
    struct worker w;
    worker_open(&w, "--step-memory-max=256M", "--slots=2");
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_at", gate_make("gate"), 0, LONG_MS);
    worker_dispatch(caller, &hoard);
    worker_expect_crash(&w, caller);
    gate_release(gate);
    caller = worker_join(&w, &worker_client);
    const struct coxi_crashed *crashed = &caller_expect(caller, COXI_CRASHED)->crashed;
    assert_int_equal(2, crashed->n_closures);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(COXI_CAUSE_MEMORY, crashed->closures[i].cause);
    }
    caller_close(caller);
    worker_close(&w);
}

/* ---- its client is gone */

TEST(a_step_of_a_client_that_is_gone_is_ended_with_its_process)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_at", gate_make("gate"), 0, GRACE_MS);
    caller_close(caller);
    worker_await(&w);
    gate_release(gate);
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(a_step_of_a_client_that_is_gone_sees_that_it_is_cancelled)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_cancelled", gate_make("gate"), 0, LONG_MS);
    caller_close(caller);
    /* the next client's step runs in the slot that this step has left */
    worker_expect_no_report(&w);
    gate_release(gate);
    assert_int_equal(0, kill(w.step_process, 0));
    worker_close(&w);
}

TEST(a_step_of_an_older_client_is_cancelled)
{
    struct coxi_session newer = worker_client;
    struct worker w;
    newer.generation++;
    newer.token++;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = start(caller, 1, "wait_at", gate_make("gate"), 0, GRACE_MS);
    struct caller *client = worker_join(&w, &newer);
    worker_expect_crash(&w, client);
    gate_release(gate);
    caller_close(caller);
    worker_close(&w);
}
