/* A step crashes its process: the next process reports it to the same client, and to no
 * other. */
#include <signal.h>
#include <stdio.h>

#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/process.h"

static void dispatch(struct caller *caller, uint64_t closure, uint32_t attempt,
                     const char *step, const struct cox_value *arg)
{
    worker_dispatch(caller, &(struct worker_call){closure, attempt, step, arg, 0, 0});
}

static int dispatch_to_gate(struct caller *caller, uint64_t closure, uint32_t attempt,
                            const char *path)
{
    const struct worker_call call = {closure, attempt, "wait_at", NULL, 0, 0};
    return worker_dispatch_to_gate(caller, &call, path);
}

/* ---- what is reported */

static void crash_with(const char *step, const struct cox_value *arg, int signum)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    for (uint32_t i = 1; i <= 2; i++) {
        struct caller *caller = worker_join_ready(&w);
        dispatch(caller, 40 + i, i, step, arg);
        worker_expect_crash(&w, caller);
        worker_expect_report(&w, 40 + i, i, signum);
    }
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(a_step_that_writes_through_a_null_pointer_is_reported)
{
    crash_with("null_write", NULL, SIGSEGV);
}

TEST(a_step_that_aborts_is_reported)
{
    crash_with("do_abort", NULL, SIGABRT);
}

TEST(a_step_that_exits_is_reported_and_the_worker_goes_on)
{
    const int64_t code = 3;
    const struct cox_value arg = COX_SCALAR("code", COX_I64, &code);
    crash_with("do_exit", &arg, 0);
}

TEST(a_step_that_exits_with_success_is_reported_too)
{
    const int64_t code = 0;
    const struct cox_value arg = COX_SCALAR("code", COX_I64, &code);
    crash_with("do_exit", &arg, 0);
}

TEST(a_step_that_ends_its_thread_is_reported)
{
    crash_with("end_thread", NULL, 0);
}

static void kill_step_process(const struct worker *worker)
{
    assert_int_equal(0, kill(worker->step_process, SIGKILL));
}

TEST(a_step_that_is_killed_is_reported)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = dispatch_to_gate(caller, 7, 3, gate_make("gate"));
    kill_step_process(&w);
    worker_expect_crash(&w, caller);
    gate_release(gate);
    worker_expect_report(&w, 7, 3, SIGKILL);
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(all_steps_that_ran_are_reported_where_nobody_knows_which_it_was)
{
    struct worker w;
    worker_open(&w, "--slots=2", NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = dispatch_to_gate(caller, 1, 1, gate_make("gate"));
    dispatch(caller, 2, 4, "quit", NULL);
    worker_expect_crash(&w, caller);
    gate_release(gate);
    caller = worker_join(&w, &worker_client);
    const struct coxi_crashed *crashed = &caller_expect(caller, COXI_CRASHED)->crashed;
    assert_int_equal(2, crashed->n_closures);
    size_t first =
        /* the slots may run them in any order */
        crashed->closures[0].closure == 1 ? 0 : 1;
    worker_assert_crashed(&crashed->closures[first], 1, 1, COXI_CAUSE_EXIT);
    worker_assert_crashed(&crashed->closures[1 - first], 2, 4, COXI_CAUSE_EXIT);
    caller_close(caller);
    worker_expect_no_report(&w);
    worker_close(&w);
}

/* A step that runs beside the crashed one is not reported. */
static void crash_beside(const char *step, int cause)
{
    struct worker w;
    worker_open(&w, "--slots=2", NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = dispatch_to_gate(caller, 1, 1, gate_make("gate"));
    dispatch(caller, 2, 4, step, NULL);
    worker_expect_crash(&w, caller);
    gate_release(gate);
    worker_expect_report(&w, 2, 4, cause);
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(of_several_slots_the_one_that_faults_is_reported)
{
    crash_beside("null_write", SIGSEGV);
}

TEST(of_several_slots_the_one_that_aborts_is_reported)
{
    crash_beside("do_abort", SIGABRT);
}

TEST(of_several_slots_the_one_that_exits_is_reported)
{
    crash_beside("do_exit", COXI_CAUSE_EXIT);
}

TEST(a_crash_is_kept_until_a_client_comes)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    dispatch(caller, 8, 2, "do_abort", NULL);
    worker_expect_crash(&w, caller);
    kill_step_process(&w); /* idle: no client has come */
    worker_await(&w);
    program_assert_printed(&w.program, "closures=none\n");
    worker_expect_report(&w, 8, 2, SIGABRT);
    worker_expect_no_report(&w);
    worker_close(&w);
}

/* ---- what is not */

TEST(a_step_that_has_returned_is_not_reported_though_its_commit_is_under_way)
{
    struct worker w;
    worker_open(&w, "--slots=2", NULL);
    struct caller *caller = worker_join_ready(&w);
    int gate = dispatch_to_gate(caller, 1, 1, gate_make("gate"));
    dispatch(caller, 2, 1, "count", NULL);
    dispatch(caller, 3, 1, "nothing", NULL); /* after it, in the same slot */
    const struct coxi_done *done = &caller_expect(caller, COXI_DONE)->done;
    assert_int_equal(1, done->n_closures);
    assert_int_equal(3, done->closures[0].closure);
    kill_step_process(&w);
    worker_expect_crash(&w, caller);
    gate_release(gate);
    worker_expect_report(&w, 1, 1, SIGKILL);
    worker_close(&w);
}

TEST(an_idle_process_that_is_killed_leaves_nothing_to_report)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    dispatch(caller, 1, 1, "nothing", NULL);
    (void)caller_expect(caller, COXI_DONE);
    kill_step_process(&w);
    worker_expect_crash(&w, caller);
    program_assert_printed(&w.program, "closures=none\n");
    worker_expect_no_report(&w);
    worker_close(&w);
}

TEST(a_client_hears_that_nothing_ran_in_a_process_that_died)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    kill_step_process(&w);
    worker_expect_crash(&w, caller);
    caller = worker_join(&w, &worker_client);
    assert_int_equal(0, caller_expect(caller, COXI_CRASHED)->crashed.n_closures);
    caller_close(caller);
    worker_expect_no_report(&w);
    worker_close(&w);
}

/* A client of another run, of another generation, or with the same numbers but another
 * token. */
static void other_client(const struct coxi_session *other)
{
    struct worker w;
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    dispatch(caller, 1, 1, "do_abort", NULL);
    worker_expect_crash(&w, caller);
    caller = worker_join(&w, other);
    worker_send_module(caller); /* its answer is the next message */
    caller_close(caller);
    if (other->generation <= worker_client.generation) {
        /* the report was not for the other client, and is dropped */
        worker_expect_no_report(&w);
    }
    worker_close(&w);
}

TEST(a_client_of_another_run_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 2, .generation = 5, .token = 11});
}

TEST(a_client_of_a_newer_generation_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 1, .generation = 6, .token = 11});
}

TEST(a_client_with_another_token_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 1, .generation = 5, .token = 12});
}

TEST(a_data_connection_hears_nothing)
{
    struct worker w;
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT,
                               .channel = COXI_CHANNEL_DATA,
                               .session = worker_client};
    worker_open(&w, NULL, NULL);
    struct caller *caller = worker_join_ready(&w);
    dispatch(caller, 5, 1, "do_abort", NULL);
    worker_expect_crash(&w, caller);
    struct caller *data = caller_open(w.address, &hello);
    caller_expect_refusal(data, COX_EREFUSED, "not here");
    caller_close(data);
    worker_expect_report(&w, 5, 1, SIGABRT);
    worker_close(&w);
}

/* ---- the program */

TEST(a_step_process_without_a_supervisor_says_so)
{
    program_assert_refuses("coxswain-worker", "--step-process", "--step-process");
}
