/*
 * Calls and writes that were under way when the checkpoint was written: the client that
 * resumes from it runs them again, in their order. Calls of
 * coxi_operation_hold and coxi_closure_new go through this file (ld --wrap).
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/operation.h"
#include "tests/coordinator/checkpoints/resuming.h"
#include "tests/coordinator/yard.h"
#include "tests/test.h"

/* ---- what was under way when the checkpoint was written */

static int64_t order_of(struct cox_future *future)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, 10000));
    assert_code(0, cox_future_result(future, "order", &value));
    return *(const int64_t *)value.data;
}

TEST(a_call_that_runs_again_is_covered_and_a_cancelled_one_is_not)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    (void)crew_counter(&crew, "c0");
    struct cox_call call = COX_CALL_INIT;
    call.cursor = 7;
    crew_hold_call(&hold, &crew, "hold_and_count", &call, true);
    crew_hold_wait(&hold);
    struct cox_future *done[2];
    struct cox_function *number_off = crew_function(&crew, "number_off");
    assert_code(0, cox_schedule(crew.c, number_off, NULL, &done[0]));
    assert_int_equal(0, order_of(done[0]));
    /* call 7 is running: ckpt-1 lists it */
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    call.cursor = 8;
    call.inputs = &(struct cox_input){"attempt", hold.future, "attempt"};
    call.n_inputs = 1;
    struct cox_future *cancelled;
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "echo"), &call, &cancelled));
    assert_code(0, cox_future_cancel(cancelled));
    assert_code(COX_ECANCELLED, cox_future_wait(cancelled, 10000));
    assert_code(0, cox_schedule(crew.c, number_off, NULL, &done[1]));
    assert_int_equal(1, order_of(done[1]));
    /* ckpt-2 lists the calls, too */
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_end(&hold);
    for (int i = 0; i < 2; i++) {
        cox_future_free(done[i]);
    }
    cox_future_free(cancelled);
    cox_future_free(hold.future);
    crew_close(&crew);
    for (options.resume_from = 1; options.resume_from <= 2; options.resume_from++) {
        crew_open(&crew, RESUMING_PS, 2, "hold", &options);
        assert_int_equal(7, resuming_progress(&crew).cursor);
        assert_int_equal(1, resuming_progress(&crew).rerun);
        crew_close(&crew);
    }
}

TEST(what_was_under_way_is_run_again_when_the_program_goes_on)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *futures[2];
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    /* The resumed call takes the result of a closure that is done, and waits for one
     * that is not. */
    struct cox_function *number_off = crew_function(&crew, "number_off");
    assert_code(0, cox_schedule(crew.c, number_off, NULL, &futures[0]));
    assert_int_equal(0, order_of(futures[0]));
    assert_code(0, cox_schedule(crew.c, number_off, NULL, &futures[1]));
    assert_int_equal(1, order_of(futures[1]));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_end(&hold);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(3, crew_read(&crew, c0));
    cox_future_free(futures[0]);
    cox_future_free(futures[1]);
    crew_close(&crew);

    struct cox_cluster *cluster;
    assert_code(0, cox_cluster_local(RESUMING_PS, 2, &cluster));
    assert_code(0, cox_open(cluster, &options, &crew.c));
    cox_cluster_free(cluster);
    assert_int_equal(1, resuming_progress(&crew).rerun);
    c0 = crew_counter(&crew, "c0");
    /* the resumed call's module is not loaded yet */
    assert_int_equal(2, crew_read(&crew, c0));
    assert_code(COX_ENOENT, cox_join(crew.c, -1));
    assert_error_names("'hold_and_count'");
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &crew.module));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(3, crew_read(&crew, c0));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);

    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    assert_int_equal(0, resuming_progress(&crew).rerun);
    assert_int_equal(3, crew_read(&crew, crew_counter(&crew, "c0")));
    crew_close(&crew);
}

TEST(a_chain_of_calls_that_was_under_way_is_run_again_with_its_results)
{
    enum { CHAIN = 5 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *futures[CHAIN];
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    (void)crew_counter(&crew, "c0");
    crew_hold_on(&hold, &crew, "straggle", 1, true);
    crew_hold_wait(&hold);
    struct cox_input input = {"attempt", hold.future, "attempt"};
    struct cox_call call = COX_CALL_INIT;
    call.inputs = &input;
    call.n_inputs = 1;
    for (int i = 0; i < CHAIN; i++) {
        assert_code(
            0, cox_schedule(crew.c, crew_function(&crew, "echo"), &call, &futures[i]));
        input.future = futures[i];
    }
    /* The commit of this call gives a ps a higher id than those of the chain. */
    resuming_schedule(&crew, "number_off", 0, 1, 1);
    struct cox_stats stats = COX_STATS_INIT;
    do {
        assert_code(0, cox_stats(crew.c, &stats));
    } while (stats.done == 0);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_end(&hold);
    for (int i = 0; i < CHAIN; i++) {
        cox_future_free(futures[i]);
    }
    cox_future_free(hold.future);
    crew_close(&crew);

    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    assert_int_equal(1 + CHAIN, resuming_progress(&crew).rerun);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, crew_counter(&crew, "c0")));
    crew_close(&crew);
}

/* ---- a backlog, and steps that fail or cannot run */

TEST(a_step_that_fails_does_not_cancel_what_the_client_before_has_left)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_module *hold_module;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(&crew, RESUMING_PS, 2, "hold", &options);
    (void)crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    struct cox_future *future;
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "number_off"), NULL, &future));
    assert_int_equal(0, order_of(future));
    cox_future_free(future);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_end(&hold);
    crew_close(&crew);

    crew_open(&crew, RESUMING_PS, 2, "counter", &options);
    assert_int_equal(1, resuming_progress(&crew).rerun);
    resuming_schedule(&crew, "count_and_fail", 0, 1, 1);
    while (cox_try_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL) == 0) {
    }
    assert_error_names("line 7 is odd");
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &hold_module));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, crew_counter(&crew, "c0")));
    crew_close(&crew);
}

TEST(what_was_left_and_cannot_run_tells_which_ps_have_a_part_of_it)
{
    struct yard yard;
    struct program worker;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    options.min_workers = 0;
    options.worker_wait_ms = 100;
    yard_open(&yard, &options);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    struct crew_hold hold;
    hold.path = coxi_test_path("hold");
    hold.fd = -1;
    assert_int_equal(0, mkfifo(hold.path, 0600));
    struct cox_value args[2] = {
        COX_VECTOR("fifo", COX_U8, strlen(hold.path) + 1, hold.path),
        COX_VECTOR("flush", COX_U8, 0, NULL)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 2;
    assert_code(0,
                cox_schedule(yard.crew.c, crew_function(&yard.crew, "watch_and_count"),
                             &call, NULL));
    crew_hold_wait(&hold); /* its first segment is applied */
    assert_code(0, cox_checkpoint_save(yard.crew.c, NULL, NULL));
    yard_kill(&worker);
    (void)cox_close(yard.crew.c, 0);
    assert_int_equal(0, close(hold.fd));

    yard_open_client(&yard, &options);
    assert_int_equal(1, resuming_progress(&yard.crew).rerun);
    assert_code(COX_EPARTIAL, cox_join(yard.crew.c, 8000));
    assert_error_names("as of now it is applied on ps 0");
    assert_int_equal(1, crew_read(&yard.crew, yard.counter));
    yard_close(&yard);
}

/* ---- a metric that is reset while calls are to run again */

static double measured(struct crew *crew, struct cox_metric *metric)
{
    double value = -1;
    assert_code(0, cox_metric_read(crew->c, metric, &value, NULL));
    return value;
}

static struct cox_metric *open_measuring(struct crew *crew)
{
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    struct cox_metric *metric;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    crew_open(crew, RESUMING_PS, 2, "hold", &options);
    spec.name = "m";
    spec.kind = COX_METRIC_COUNT;
    assert_code(0, cox_metric_create(crew->c, &spec, &metric));
    return metric;
}

/* Leaves a checkpoint in which metric "m" is 1, and a call that will run again adds 1
 * to it. `hold` no longer holds that call. */
static void leave_held_measurement(struct crew_hold *hold)
{
    struct crew crew;
    struct cox_future *future;
    (void)open_measuring(&crew);
    (void)crew_counter(&crew, "c0");
    crew_hold(hold, &crew, "measure", false);
    crew_hold_wait(hold);
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "measure"), NULL, &future));
    assert_code(0, cox_future_wait(future, 10000));
    cox_future_free(future);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_end(hold);
    crew_close(&crew);
}

static void leave_a_measurement(void)
{
    struct crew_hold hold;
    leave_held_measurement(&hold);
}

TEST(a_metric_that_is_reset_does_not_count_what_runs_again)
{
    struct crew crew;
    leave_a_measurement();
    struct cox_metric *metric = open_measuring(&crew);
    assert_int_equal(1, resuming_progress(&crew).rerun);
    assert_true(measured(&crew, metric) == 1);
    assert_code(0, cox_metric_reset(crew.c, metric));
    assert_code(0, cox_metric_reset(crew.c, metric));
    assert_true(measured(&crew, metric) == 0);
    assert_code(0, cox_join(crew.c, -1)); /* the call runs again */
    assert_true(measured(&crew, metric) == 0);
    resuming_schedule(&crew, "measure", 0, 1, 5);
    assert_code(0, cox_join(crew.c, -1));
    assert_true(measured(&crew, metric) == 5);
    crew_close(&crew);
}

TEST(a_metric_that_is_reset_counts_what_is_scheduled_next)
{
    struct crew crew;
    leave_a_measurement();
    struct cox_metric *metric = open_measuring(&crew);
    assert_code(0, cox_metric_reset(crew.c, metric));
    resuming_schedule(&crew, "measure", 0, 1, 5);
    assert_code(0, cox_join(crew.c, -1));
    assert_true(measured(&crew, metric) == 5);
    crew_kill(crew_ps_process(&crew, 0));
    crew_kill(crew_ps_process(&crew, 1));
    assert_true(measured(&crew, metric) == 5);
    crew_close(&crew);
}

TEST(a_reset_behind_what_runs_again_outlives_its_client)
{
    struct crew crew;
    const int64_t one = 1;
    leave_a_measurement();
    struct cox_metric *metric = open_measuring(&crew);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    assert_code(0, cox_metric_reset(crew.c, metric));
    assert_code(0, cox_variable_add(crew.c, c0, &one, sizeof(one)));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);

    metric = open_measuring(&crew);
    assert_int_equal(1, resuming_progress(&crew).rerun);
    resuming_schedule(&crew, "measure", 0, 1, 5);
    assert_code(0, cox_join(crew.c, -1));
    assert_true(measured(&crew, metric) == 5);
    crew_close(&crew);
}

TEST(a_metric_that_is_reset_names_the_function_that_is_missing)
{
    struct crew crew;
    struct cox_module *hold_module;
    struct cox_metric *metric;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    leave_a_measurement();
    crew_open(&crew, RESUMING_PS, 2, "counter", &options);
    assert_code(0, cox_metric_get(crew.c, "m", &metric));
    assert_code(0, cox_metric_reset(crew.c, metric));
    assert_true(measured(&crew, metric) == 0);
    assert_code(COX_ENOENT,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL));
    assert_error_names("'measure'");
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &hold_module));
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL));
    assert_code(0, cox_join(crew.c, -1));
    assert_true(measured(&crew, metric) == 0);
    crew_close(&crew);
}

/* Runs `meanwhile` after a reset has checked whether the program has scheduled
 * anything, and before the reset gets its place in the order. */
__typeof__(coxi_operation_hold) __real_coxi_operation_hold, __wrap_coxi_operation_hold;

/* called once, in place of another thread */
static void (*meanwhile)(struct crew *crew);
static struct crew *meanwhile_of;

int __wrap_coxi_operation_hold(
    struct cox_coordinator *c, struct coxi_replay_entry *what,
    void (*listed)(void *arg, struct coxi_operation *operation), void *arg)
{
    void (*run)(struct crew *crew) = meanwhile;
    meanwhile = NULL;
    if (run != NULL) {
        run(meanwhile_of);
    }
    return __real_coxi_operation_hold(c, what, listed, arg);
}

static void reset_meanwhile(struct crew *crew, struct cox_metric *metric,
                            void (*run)(struct crew *crew))
{
    meanwhile_of = crew;
    meanwhile = run;
    assert_code(0, cox_metric_reset(crew->c, metric));
    assert_null(meanwhile);
}

static void join_all(struct crew *crew)
{
    assert_code(0, cox_join(crew->c, 10000));
}

static void measure_one(struct crew *crew)
{
    resuming_schedule(crew, "measure", 0, 1, 1);
}

TEST(a_metric_is_reset_also_if_another_thread_joins)
{
    struct crew crew;
    leave_a_measurement();
    struct cox_metric *metric = open_measuring(&crew);
    reset_meanwhile(&crew, metric, join_all); /* the old call has run again */
    assert_true(measured(&crew, metric) == 0);
    measure_one(&crew);
    join_all(&crew);
    assert_true(measured(&crew, metric) == 1);
    crew_close(&crew);
}

TEST(calls_that_overtake_a_reset_do_not_wait_for_it)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    struct cox_metric *second;
    leave_held_measurement(&hold);
    assert_int_equal(0, unlink(hold.path));
    assert_int_equal(0, mkfifo(hold.path, 0600)); /* the call is held once more */
    struct cox_metric *metric = open_measuring(&crew);
    spec.name = "second";
    spec.kind = COX_METRIC_COUNT;
    assert_code(0, cox_metric_create(crew.c, &spec, &second));
    assert_code(0, cox_metric_reset(crew.c, metric));
    reset_meanwhile(&crew, second, measure_one);
    crew_hold_wait(&hold);
    crew_hold_release(&hold);
    join_all(&crew);
    assert_true(measured(&crew, metric) == 1);
    assert_true(measured(&crew, second) == 0);
    crew_close(&crew);
}

/* ---- a backlog that cannot be resumed */

__typeof__(coxi_closure_new) __real_coxi_closure_new, __wrap_coxi_closure_new;

static atomic_bool memory_is_full;

int __wrap_coxi_closure_new(struct cox_coordinator *c,
                            const struct coxi_closure_spec *spec,
                            struct coxi_closure **ret)
{
    return atomic_load(&memory_is_full) ? coxi_error_memory("a closure")
                                        : __real_coxi_closure_new(c, spec, ret);
}

TEST(a_backlog_that_cannot_be_taken_up_says_why)
{
    struct crew crew;
    struct cox_cluster *cluster;
    struct cox_options options = resuming_options(coxi_test_path("checkpoints"));
    leave_a_measurement();
    atomic_store(&memory_is_full, true);
    options.bin_dir = coxi_test_bin();
    assert_code(0, cox_cluster_local(RESUMING_PS, 2, &cluster));
    assert_code(COX_ENOMEM, cox_open(cluster, &options, &crew.c));
    assert_error_names("a closure that is run again");
    cox_cluster_free(cluster);
}
