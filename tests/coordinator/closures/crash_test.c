/* Steps that crash their process: which closures are affected, and what the client
 * reports. */
#include <signal.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/coordinator/diary.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

static void open_crew(struct crew *crew, int n_workers,
                      const struct cox_options *options)
{
    coxi_test_expect_crashes();
    crew_open(crew, 2, n_workers, "crash", options);
}

static struct cox_future *schedule(struct crew *crew, const char *name)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), NULL, &future));
    return future;
}

/* The step `name` crashes in each attempt, while other steps count; cox_join reports
 * only that failure. */
static void check_poison(const char *name, const char *reason)
{
    struct crew crew;
    struct cox_error error = COX_ERROR_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    open_crew(&crew, 2, &options);
    struct cox_variable *counter = crew_counter(&crew, "counter");
    struct cox_future *poison = schedule(&crew, name);
    crew_schedule(&crew, crew_function(&crew, "count"), 300, 0);
    assert_code(COX_ECRASHED, cox_future_wait(poison, -1));
    assert_error_names("3 times: worker");
    assert_error_names(reason);
    assert_error_names(name);
    assert_code(0, cox_future_error(poison, &error));
    assert_string_equal(name, error.function);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(300, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.failed);
    assert_int_equal(300, stats.done);
    cox_future_free(poison);
    crew_close(&crew);
}

TEST(step_that_writes_through_null_ends_as_ecrashed_while_others_go_on)
{
    check_poison("null_write", "Segmentation fault");
}

TEST(step_that_aborts_ends_as_ecrashed_while_others_go_on)
{
    check_poison("do_abort", "Aborted");
}

TEST(step_that_exits_ends_as_ecrashed_while_others_go_on)
{
    check_poison("do_exit", "exit");
}

TEST(step_that_crashes_once_is_tried_again)
{
    struct crew crew;
    open_crew(&crew, 1, NULL);
    struct cox_variable *counter = crew_counter(&crew, "counter");
    struct cox_future *future = schedule(&crew, "crash_once");
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(1, crew_read(&crew, counter));
    cox_future_free(future);
    crew_close(&crew);
}

/* The child holds neither the worker's address nor its connection to the client. */
TEST(step_that_forks_and_crashes_leaves_its_worker_whole)
{
    struct crew crew;
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    struct cox_options options = COX_OPTIONS_INIT;
    const char *gate = gate_make("gate");
    struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(gate) + 1, gate);
    /* so that the crash is not noticed by the worker's silence */
    options.peer_timeout_ms = 60000;
    open_crew(&crew, 1, &options);
    struct cox_variable *counter = crew_counter(&crew, "counter");
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "fork_and_crash"), &call,
                                &future));
    int fd = gate_pass(gate); /* the step has forked */
    assert_code(0, cox_future_wait(future, 30000));
    assert_int_equal(1, crew_read(&crew, counter));
    gate_release(fd);
    cox_future_free(future);
    crew_close(&crew);
}

TEST(max_crashes_says_how_often)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.max_crashes = 1;
    open_crew(&crew, 1, &options);
    struct cox_future *future = schedule(&crew, "null_write");
    assert_code(COX_ECRASHED, cox_future_wait(future, -1));
    assert_error_names("1 time: worker");
    assert_code(COX_ECRASHED, cox_join(crew.c, -1));
    cox_future_free(future);

    /* The coordinator is usable afterwards. */
    future = schedule(&crew, "nothing");
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    crew_close(&crew);
}

TEST(step_with_more_memory_than_it_may_have_ends_as_ecrashed)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    const int64_t bytes = 256 * 1024 * 1024;
    const struct cox_value arg = COX_SCALAR("bytes", COX_I64, &bytes);
    options.max_crashes = 1;
    options.keep_going = 1;
    options.step_memory_max = (uint64_t)bytes;
    open_crew(&crew, 1, &options);
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "hoard"), &call, &future));
    assert_code(COX_ECRASHED, cox_future_wait(future, -1));
    assert_error_names("worker 0: more memory than --step-memory-max");
    cox_future_free(future);
    future = schedule(&crew, "nothing");
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    crew_close(&crew);
}

static bool has_lost_a_worker(void *c)
{
    struct cox_stats stats = COX_STATS_INIT;
    return cox_stats(c, &stats) == 0 && stats.workers_lost > 0;
}

/* The closure fails with its first crash, although another step runs beside it. */
static void check_neighbour(const char *name, const char *reason)
{
    struct crew crew;
    struct crew crash;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    options.max_crashes = 1;
    options.keep_going = 1;
    coxi_test_expect_crashes();
    crew_open(&crew, 1, 1, "hold", &options);
    crash = crew;
    assert_code(0, cox_module_load(crew.c, coxi_test_module("crash"), &crash.module));
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    struct cox_future *poison = schedule(&crash, name);
    coxi_test_until(has_lost_a_worker, crew.c, "a crash");
    crew_hold_end(&hold);
    assert_code(COX_ECRASHED, cox_future_wait(poison, 30000));
    assert_error_names("1 time: worker");
    assert_error_names(reason);
    assert_code(0, cox_future_wait(hold.future, 30000));
    assert_int_equal(1, crew_read(&crew, counter));
    cox_future_free(poison);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(step_beside_one_that_crashes_is_not_blamed)
{
    check_neighbour("null_write", "Segmentation fault");
}

TEST(step_beside_one_that_ends_the_process_unseen_is_not_blamed)
{
    check_neighbour("quit", "exit");
}

TEST(step_is_not_blamed_for_memory_that_holds_what_is_kept)
{
    needs_true_memory();
    enum { KEPT = 40 };
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *kept[KEPT];
    const int64_t bytes = 8 * 1024 * 1024;
    const struct cox_value arg = COX_SCALAR("bytes", COX_I64, &bytes);
    options.max_crashes = 1;
    options.step_memory_max = 256 * 1024 * 1024;
    call.args = &arg;
    call.n_args = 1;
    call.keep = 1;
    coxi_test_keep_no_freed_memory();
    open_crew(&crew, 1, &options);
    for (int i = 0; i < KEPT; i++) {
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "give_bytes"), &call,
                                    &kept[i]));
        assert_code(0, cox_future_wait(kept[i], 30000));
    }
    struct cox_future *future = schedule(&crew, "linger");
    assert_code(0, cox_future_wait(future, 30000));
    cox_future_free(future);
    for (int i = 0; i < KEPT; i++) {
        cox_future_free(kept[i]);
    }
    crew_close(&crew);
}

TEST(worker_killed_from_outside_is_no_crash_of_its_step)
{
    enum { KILLS = 4 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    crew_open(&crew, 1, 1, "hold", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold_and_count", true);
    for (int i = 0; i < KILLS; i++) {
        crew_hold_wait(&hold);
        pid_t victim = crew_step_process(&crew, 0);
        crew_kill(victim);
        crew_wait_gone(victim); /* and its end of the FIFO is closed */
        crew_hold_release(&hold);
    }
    crew_hold_wait(&hold);
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    assert_int_equal(1, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(KILLS, stats.workers_lost);
    cox_future_free(hold.future);
    crew_close(&crew);
}

/* ---- events of crashes and overruns */

TEST(crash_is_told_with_its_step_and_signal)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    coxi_test_expect_crashes();
    struct diary *diary = diary_open(&crew, "crash", &options);
    struct cox_future *future = schedule(&crew, "null_write");
    const struct cox_event *event =
        diary_await(diary, COX_EVENT_STEP_CRASHED,
                    "closure 1 (null_write) crashed the process of worker ");
    assert_non_null(strstr(diary->texts[diary->found], "Segmentation fault"));
    assert_string_equal("step_crashed", event->name);
    assert_int_equal(COX_EVENT_WARNING, event->level);
    assert_int_equal(COX_ECRASHED, event->error);
    assert_int_equal(1, event->closure);
    assert_in_range(event->worker, 0, 1);
    cox_future_free(future);
    diary_close(&crew, diary);
}

/* The signal comes from another process, so no step is known to have caused the
 * crash. */
TEST(crash_that_no_step_is_known_to_have_caused_is_told_of_each)
{
    struct crew crew;
    struct crew_hold holds[2];
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    options.keep_going = 1;
    coxi_test_expect_crashes();
    struct diary *diary = diary_open(&crew, "hold", &options);
    for (int i = 0; i < 2; i++) {
        crew_hold_on(&holds[i], &crew, "hold", 1, true);
        crew_hold_wait(&holds[i]);
    }
    assert_int_equal(0, kill(crew_step_process(&crew, 0), SIGUSR1));
    for (int i = 0; i < 2; i++) {
        (void)diary_await(diary, COX_EVENT_STEP_CRASHED,
                          "(hold) ran in the crashed process of worker 0: User "
                          "defined signal 1; 2 steps ran there");
    }
    for (int i = 0; i < 2; i++) {
        crew_hold_end(&holds[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_code(0, cox_future_wait(holds[i].future, 30000));
        cox_future_free(holds[i].future);
    }
    diary_close(&crew, diary);
}

TEST(overrun_is_told_with_its_step)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.step_timeout_ms = 100;
    options.cancel_grace_ms = 100;
    options.keep_going = 1;
    coxi_test_expect_crashes();
    struct diary *diary = diary_open(&crew, "hold", &options);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    const struct cox_event *event =
        diary_await(diary, COX_EVENT_STEP_OVERRUN,
                    "closure 1 (hold) ran for more than 100 ms on worker ");
    assert_string_equal("step_overrun", event->name);
    assert_int_equal(COX_EVENT_WARNING, event->level);
    assert_int_equal(COX_EOVERRUN, event->error);
    assert_int_equal(1, event->closure);
    assert_in_range(event->worker, 0, 1);
    crew_hold_end(&hold);
    cox_future_free(hold.future);
    diary_close(&crew, diary);
}
