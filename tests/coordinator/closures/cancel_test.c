/* Cancelled closures, and steps that run for too long. */
#include <stdbool.h>
#include <string.h>

#include "coordinator/base/alive.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { GRACE_MS = 100, LONG_MS = 600000 };

/* Opens a crew with module hold; returns a counter. */
static struct cox_variable *open_crew(struct crew *crew, int n_workers, int grace_ms)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = grace_ms;
    options.keep_going = 1;
    options.speculate = -1;
    crew_open(crew, 2, n_workers, "hold", &options);
    (void)crew_counter(crew, "c1");
    return crew_counter(crew, "c0");
}

/* Asserts that the coordinator is usable, and that `counter` has the expected value. */
static void check_usable(struct crew *crew, struct cox_variable *counter, int expected)
{
    assert_code(0, cox_join(crew->c, -1));
    assert_int_equal(expected, crew_read(crew, counter));
    crew_schedule(crew, crew_function(crew, "number_off"), 100, 0);
    assert_code(0, cox_join(crew->c, -1));
    assert_int_equal(expected + 100, crew_read(crew, counter));
}

TEST(cancelling_what_is_queued_or_waits_ends_it_and_nothing_else)
{
    enum { N = 50 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *queued[N];
    struct cox_variable *counter = open_crew(&crew, 1, LONG_MS);
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    struct cox_function *function = crew_function(&crew, "number_off");
    for (int i = 0; i < N; i++) { /* the worker has some of them already */
        assert_code(0, cox_schedule(crew.c, function, NULL, &queued[i]));
    }
    for (int i = 0; i < N; i += 2) {
        assert_code(0, cox_future_cancel(queued[i]));
    }
    for (int i = 0; i < N; i += 2) {
        assert_code(COX_ECANCELLED, cox_future_wait(queued[i], -1));
        assert_code(0, cox_future_cancel(queued[i])); /* changes nothing */
    }
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 0));
    crew_hold_release(&hold);
    for (int i = 0; i < N; i++) {
        assert_code(i % 2 == 0 ? COX_ECANCELLED : 0, cox_future_wait(queued[i], -1));
        cox_future_free(queued[i]);
    }
    assert_code(0, cox_future_wait(hold.future, -1));
    check_usable(&crew, counter, 1 + N / 2);
    cox_future_free(hold.future);
    crew_close(&crew);
}

/* Cancels a step that runs, and waits until it has ended. */
static void cancel_running(struct crew *crew, const char *step, struct crew_hold *ret)
{
    crew_hold(ret, crew, step, true);
    crew_hold_wait(ret);
    assert_code(0, cox_future_cancel(ret->future));
    assert_code(COX_ECANCELLED, cox_future_wait(ret->future, -1));
}

TEST(nothing_waits_for_a_step_that_does_not_look_once_the_run_is_over)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *future = NULL;
    (void)open_crew(&crew, 1, LONG_MS);
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    struct cox_function *function = crew_function(&crew, "number_off");
    coxi_fatal(crew.c, COX_EPSLOST, "ps 1 is lost");
    assert_code(COX_EPSLOST, cox_schedule(crew.c, function, NULL, &future));
    assert_code(COX_EPSLOST, cox_try_schedule(crew.c, function, NULL, &future));
    assert_null(future);
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 0));
    crew_hold_release(&hold);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(cancelling_a_step_that_looks_ends_it_and_leaves_no_trace)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_variable *counter = open_crew(&crew, 1, LONG_MS);
    cancel_running(&crew, "watch_and_count", &hold);
    crew_hold_release(&hold);
    check_usable(&crew, counter, 0);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(0, stats.workers_lost);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(cancelling_a_step_that_does_not_look_ends_its_process_after_the_grace)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_variable *counter = open_crew(&crew, 1, GRACE_MS);
    pid_t pid = crew_step_process(&crew, 0);
    cancel_running(&crew, "hold_and_count", &hold);
    crew_wait_gone(pid);
    crew_hold_release(&hold);
    check_usable(&crew, counter, 0);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.workers_lost);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(cancelling_a_step_that_had_flushed_tells_what_stays_applied)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_variable *counter = open_crew(&crew, 1, LONG_MS);
    const uint8_t yes = 1;
    crew_hold(&hold, &crew, "hold", true); /* makes the FIFO */
    crew_hold_wait(&hold);
    struct cox_value args[2] = {
        COX_VECTOR("fifo", COX_U8, strlen(hold.path) + 1, hold.path),
        COX_SCALAR("flush", COX_U8, &yes),
    };
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    call.args = args;
    call.n_args = 2;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "watch_and_count"), &call,
                                &future));
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    crew_hold_wait(&hold); /* when this returns, the step has flushed */
    assert_code(0, cox_future_cancel(future));
    assert_code(COX_EPARTIAL, cox_future_wait(future, -1));
    crew_hold_release(&hold);
    check_usable(&crew, counter, 1);
    cox_future_free(future);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(cancelling_while_the_worker_dies_still_ends_it)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_variable *counter = open_crew(&crew, 1, LONG_MS);
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    pid_t pid = crew_step_process(&crew, 0);
    assert_code(0, cox_future_cancel(hold.future));
    crew_kill(pid);
    assert_code(COX_ECANCELLED, cox_future_wait(hold.future, -1));
    crew_hold_release(&hold);
    check_usable(&crew, counter, 0);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(error_elsewhere_cancels_a_long_step_and_all_is_usable_after)
{
    struct crew crew;
    struct crew_hold deaf;
    struct crew_hold looking;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = GRACE_MS;
    crew_open(&crew, 2, 3, "hold", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&deaf, &crew, "hold_and_count", true);
    crew_hold_wait(&deaf);
    crew_hold(&looking, &crew, "watch_and_count", true);
    crew_hold_wait(&looking);
    crew_schedule(&crew, crew_function(&crew, "fail"), 1, 0);
    /* although two steps would run for ever */
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    assert_code(COX_ECANCELLED, cox_future_wait(deaf.future, 0));
    assert_code(COX_ECANCELLED, cox_future_wait(looking.future, 0));
    crew_hold_release(&deaf);
    crew_hold_release(&looking);
    check_usable(&crew, counter, 0);
    cox_future_free(deaf.future);
    cox_future_free(looking.future);
    crew_close(&crew);
}

TEST(close_ends_a_step_that_would_run_for_ever)
{
    struct crew crew;
    struct crew_hold hold;
    (void)open_crew(&crew, 1, GRACE_MS);
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    crew_close(&crew); /* asserts that cox_close returns 0: nothing runs any more */
    assert_code(COX_ECANCELLED, cox_future_wait(hold.future, 0));
    crew_hold_release(&hold);
    cox_future_free(hold.future);
}

/* ---- steps that run for too long */

static void check_overrun(const char *step, int n_workers, uint64_t n_lost)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = GRACE_MS;
    options.step_timeout_ms = 100;
    options.max_attempts = 3;
    options.keep_going = 1;
    options.min_workers = (uint32_t)n_workers;
    crew_open(&crew, 2, n_workers, "hold", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, step, true);
    crew_hold_wait(&hold);
    assert_code(COX_EOVERRUN, cox_future_wait(hold.future, -1));
    assert_error_names(step);
    assert_error_names("100 ms");
    assert_error_names("3 times");
    crew_hold_release(&hold);
    check_usable(&crew, counter, 0);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(n_lost, stats.workers_lost);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(step_that_looks_and_runs_for_too_long_fails_after_max_attempts)
{
    check_overrun("watch_and_count", 1, 0);
}

TEST(step_that_loops_for_ever_fails_after_max_attempts)
{
    check_overrun("hold_and_count", 1, 3);
}

TEST(step_that_hangs_runs_max_attempts_times_on_many_workers)
{
    /* with 5 workers, one is free whenever another one is lost */
    check_overrun("hold_and_count", 5, 3);
}

TEST(timeout_of_one_call_is_its_own)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    options.step_timeout_ms = -1;
    options.max_attempts = 1;
    options.keep_going = 1;
    crew_open(&crew, 2, 1, "hold", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold", true); /* makes the FIFO */
    crew_hold_wait(&hold);
    struct cox_value arg = COX_VECTOR("fifo", COX_U8, strlen(hold.path) + 1, hold.path);
    struct cox_future *future;
    call.args = &arg;
    call.n_args = 1;
    call.timeout_ms = 50;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "watch_and_count"), &call,
                                &future));
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    crew_hold_wait(&hold);
    assert_code(COX_EOVERRUN, cox_future_wait(future, -1));
    assert_error_names("50 ms");
    crew_hold_release(&hold);
    check_usable(&crew, counter, 0);
    call.timeout_ms = -2;
    assert_code(COX_EINVAL,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), &call, NULL));
    assert_error_names("-2");
    cox_future_free(future);
    cox_future_free(hold.future);
    crew_close(&crew);
}
