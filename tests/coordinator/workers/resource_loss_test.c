/* Resources that cannot be made, and workers that are lost and come back: what steps
 * find. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/coordinator/keeper.h"
#include "tests/coordinator/yard.h"
#include "tests/program.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

/* ---- resources that cannot be made */

static void check_bad(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 2, options);
    struct cox_variable *total = crew_counter(&crew, "c0");
    (void)keeper_create(&crew, "bad", "make",
                        &(struct keeper_ask){.number = "fail_on", .n = 1});
    (void)keeper_create_plain(&crew, "good");

    /* "bad" harms no steps that do not ask for it, or that run on another worker. */
    for (int i = 0; i < 50; i++) {
        struct cox_future *future = keeper_start(
            &crew, "bump",
            &(struct keeper_ask){.name = "good", .only_worker = 1 + (uint32_t)i % 2});
        cox_future_free(future);
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(50, crew_read(&crew, total));
    assert_int_equal(0, keeper_peek(&crew, "bad", 0));

    /* A step that asks for it on worker 1 fails, and cox_join says so once. */
    keeper_assert_unmade(&crew, "bump", "bad", 1, "no luck here");
    assert_code(COX_ERESOURCE, cox_join(crew.c, -1));
    assert_error_names("(bump)");
    assert_error_names("resource 'bad' could not be made on worker 1: no luck here");
    assert_code(0, cox_join(crew.c, -1));
    keeper_assert_unmade(&crew, "complain", "bad", 1,
                         "no luck here; the step: and now?");
    assert_code(COX_ERESOURCE, cox_join(crew.c, -1));

    /* A step that can do without the resource goes on; the worker stays connected all
     * the time. */
    assert_int_equal(COX_ERESOURCE,
                     keeper_run(&crew, "ask", "code",
                                &(struct keeper_ask){.name = "bad", .only_worker = 2}));
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(2, stats.workers_ready);
    assert_int_equal(0, stats.workers_lost);
    assert_int_equal(
        1, keeper_count_alive(&crew, 1)); /* what "bad" had kept is released */
    assert_int_equal(2, keeper_count_alive(&crew, 0));
    assert_int_equal(50, crew_read(&crew, total));
    crew_close(&crew);
}

TEST(bad_resource_is_told_by_the_steps_that_use_it_and_harmless_elsewhere)
{
    keeper_check(check_bad);
}

TEST(bad_resource_concerns_the_future_alone_when_others_are_to_go_on)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    keeper_open(&crew, 1, &options);
    (void)keeper_create(&crew, "bad", "make_from_file",
                        &(struct keeper_ask){.path = "/no/such"});
    keeper_assert_unmade(&crew, "peek", "bad", 0, "cannot read /no/such");
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

static off_t size_of(const char *path)
{
    struct stat status;
    assert_int_equal(0, stat(path, &status));
    return status.st_size;
}

static void check_crash_loop(const struct cox_options *options)
{
    struct crew crew;
    struct cox_options patient = *options;
    const char *path = coxi_test_path(options->queue_max != 0 ? "crash-2" : "crash");
    patient.keep_going = 1;
    coxi_test_expect_crashes();
    keeper_open(&crew, 1, &patient);
    (void)keeper_create(&crew, "mine", "make_crash",
                        &(struct keeper_ask){.path = path});
    (void)keeper_create_plain(&crew, "good");
    keeper_assert_unmade(&crew, "bump", "mine", 0, "3 times: Segmentation fault");
    assert_int_equal(3, size_of(path));
    assert_int_equal(
        1, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "good"}));

    /* The resource is not made again after the worker was away for another reason. */
    pid_t victim = crew_step_process(&crew, 0);
    crew_kill(victim);
    crew_wait_gone(victim);
    keeper_assert_unmade(&crew, "bump", "mine", 0, "3 times");
    assert_int_equal(3, size_of(path));
    assert_int_equal(
        1, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "good"}));
    crew_close(&crew);
}

TEST(resource_that_crashes_its_process_is_given_up_after_max_crashes)
{
    keeper_check(check_crash_loop);
}

TEST(resource_that_crashes_once_is_made_the_second_time)
{
    struct crew crew;
    const char *path = coxi_test_path("crash-once");
    coxi_test_expect_crashes();
    coxi_test_write(path, "", 0);
    keeper_open(&crew, 2, NULL);
    (void)keeper_create(&crew, "n", "make_crash_once",
                        &(struct keeper_ask){.path = path});
    for (uint32_t w = 1; w <= 2; w++) {
        assert_int_equal(
            1, keeper_run(&crew, "bump", "count",
                          &(struct keeper_ask){.name = "n", .only_worker = w}));
    }
    assert_int_equal(-1, access(path, F_OK));
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

static struct crew open_overrun(const char *function, const char *path, int timeout_ms)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    options.cancel_grace_ms = 100;
    keeper_open(&crew, 1, &options);
    (void)keeper_create(&crew, "late", function,
                        &(struct keeper_ask){.path = path, .timeout_ms = timeout_ms});
    (void)keeper_create_plain(&crew, "good");
    return crew;
}

static uint64_t count_lost(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.workers_lost;
}

TEST(resource_that_takes_too_long_has_failed_until_its_worker_comes_back)
{
    const char *path = coxi_test_path("slow");
    struct crew crew = open_overrun("make_slowly", path, 50);
    keeper_assert_unmade(&crew, "bump", "late", 0, "ran for more than 50 ms");
    keeper_assert_unmade(&crew, "bump", "late", 0, "ran for more than 50 ms");
    assert_int_equal(1, size_of(path));
    assert_int_equal(0, count_lost(&crew));
    assert_int_equal(1, keeper_count_alive(&crew, 0)); /* "good" */

    pid_t victim = crew_step_process(&crew, 0);
    crew_kill(victim);
    crew_wait_gone(victim);
    assert_int_equal(
        1, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "good"}));
    assert_int_equal(2, size_of(path));
    crew_close(&crew);
}

TEST(resource_that_does_not_return_costs_one_process_and_not_the_next)
{
    const char *path = coxi_test_path("never");
    struct crew crew = open_overrun("make_never", path, 50);
    keeper_assert_unmade(&crew, "bump", "late", 0, "ran for more than 50 ms, and did");
    assert_int_equal(
        1, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "good"}));
    assert_int_equal(1, size_of(path));
    assert_int_equal(1, count_lost(&crew));
    crew_close(&crew);
}

/* ---- workers that come and go */

static void check_killed(const struct cox_options *options)
{
    enum { N = 300 };
    struct crew crew;
    struct cox_value args[3];
    const struct keeper_ask ask = {.name = "n"};
    struct cox_call call = keeper_call(&ask, args);
    keeper_open(&crew, 2, options);
    struct cox_variable *total = crew_counter(&crew, "c0");
    (void)keeper_create_plain(&crew, "n");
    for (int i = 0; i < N; i++) {
        if (i % 100 == 50) {
            pid_t victim = crew_step_process(&crew, i / 100 % 2);
            crew_kill(victim);
            crew_wait_gone(victim);
        }
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "bump"), &call, NULL));
    }
    assert_code(0, cox_join(crew.c, -1)); /* no step lacked the resource */
    assert_int_equal(N, crew_read(&crew, total));
    crew_close(&crew);
}

TEST(resource_is_made_anew_before_anything_else_when_a_process_was_killed)
{
    keeper_check(check_killed);
}

static void check_late(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 2, options);
    pid_t step_process = crew_step_process(&crew, 1);
    crew_kill(crew_supervisor(&crew, 1));
    crew_wait_gone(step_process);
    (void)keeper_create(&crew, "a", "make",
                        &(struct keeper_ask){.number = "start", .n = 3});
    (void)keeper_create(&crew, "b", "make",
                        &(struct keeper_ask){.number = "start", .n = 4});
    assert_int_equal(3, keeper_peek(&crew, "a", 1));
    assert_int_equal(4, keeper_peek(&crew, "b", 1));
    assert_int_equal(3, keeper_peek(&crew, "a", 0));
    crew_close(&crew);
}

TEST(worker_that_joins_later_makes_all_of_them_first)
{
    keeper_check(check_late);
}

TEST(worker_that_dials_makes_what_was_created_before_there_was_any)
{
    struct yard yard;
    struct program worker;
    yard_open(&yard, NULL);
    assert_code(0, cox_module_load(yard.crew.c, coxi_test_module("resource"),
                                   &yard.crew.module));
    (void)keeper_create(&yard.crew, "n", "make",
                        &(struct keeper_ask){.number = "start", .n = 8});
    struct cox_future *future =
        keeper_start(&yard.crew, "bump", &(struct keeper_ask){.name = "n"});
    yard_worker(&yard, &worker, "anna");
    assert_int_equal(9, keeper_result(future, "count"));

    /* The resource is made again when the worker returns, as another process with
     * the same name. */
    yard_kill(&worker);
    yard_worker(&yard, &worker, "anna");
    future = keeper_start(&yard.crew, "bump",
                          &(struct keeper_ask){.name = "n", .only_worker = 1});
    assert_int_equal(9, keeper_result(future, "count"));
    yard_close(&yard);
    yard_kill(&worker);
}

static void check_cancellation(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 1, options);
    (void)keeper_create_plain(&crew, "n");
    assert_int_equal(
        1, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "n"}));
    cox_future_free(keeper_start(&crew, "fail", &(struct keeper_ask){0}));
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    assert_int_equal(
        2, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "n"}));
    assert_int_equal(1, keeper_count_alive(&crew, 0));
    crew_close(&crew);
}

TEST(resource_survives_a_cancellation)
{
    keeper_check(check_cancellation);
}

/* While worker 1 makes the resource, closures do not fail for lack of a worker. */
TEST(making_may_take_longer_than_a_worker_may_be_away)
{
    struct crew crew;
    struct crew_hold gate;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_wait_ms = 60;
    keeper_open(&crew, 1, &options);
    gate.path = keeper_fifo();
    (void)keeper_create(&crew, "n", "make_late",
                        &(struct keeper_ask){.path = gate.path});
    crew_hold_wait(&gate);
    struct cox_future *any =
        keeper_start(&crew, "bump", &(struct keeper_ask){.name = "n"});
    struct cox_future *own = keeper_start(
        &crew, "bump", &(struct keeper_ask){.name = "n", .only_worker = 1});
    assert_code(COX_ETIMEDOUT, cox_future_wait(any, 500));
    assert_code(COX_ETIMEDOUT, cox_future_wait(own, 0));
    (void)unlink(gate.path);
    crew_hold_release(&gate);
    (void)keeper_result(any, "count");
    (void)keeper_result(own, "count");
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(making_that_is_under_way_does_not_hold_up_the_close)
{
    struct crew crew;
    struct crew_hold gate;
    keeper_open(&crew, 1, NULL);
    gate.path = keeper_fifo();
    (void)keeper_create(&crew, "n", "make_late",
                        &(struct keeper_ask){.path = gate.path});
    crew_hold_wait(&gate);
    pid_t step_process = crew_step_process(&crew, 0);
    assert_code(0, cox_close(crew.c, 5000));
    crew_wait_gone(step_process);
    crew_hold_release(&gate);
}

/* ---- the end of a run */

/* A client of daemons that were started by hand. */
static void open_client(struct crew *crew, const struct cox_cluster *cluster)
{
    assert_code(0, cox_open(cluster, NULL, &crew->c));
    assert_code(0,
                cox_module_load(crew->c, coxi_test_module("resource"), &crew->module));
}

static bool none_is_alive(void *arg)
{
    return keeper_count_alive(arg, 0) == 0;
}

TEST(client_that_ends_leaves_nothing_alive_on_its_workers)
{
    struct program ps;
    struct program worker;
    struct cox_cluster *cluster;
    struct crew crew = {0};
    char addresses[2][256];
    char json[700];
    daemon_start(&ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", addresses[0]);
    daemon_start(&worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", addresses[1]);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   addresses[0], addresses[1]);
    assert_code(0, cox_cluster_parse(json, &cluster));
    open_client(&crew, cluster);
    (void)keeper_create_plain(&crew, "a");
    (void)keeper_create_plain(&crew, "b");
    assert_int_equal(2, keeper_count_alive(&crew, 0));
    assert_code(0, cox_close(crew.c, 1000));

    /* The resources are released soon after the client's connection has ended, so that
     * the next client can use the same names. */
    open_client(&crew, cluster);
    coxi_test_until(none_is_alive, &crew, "the end of what was kept");
    (void)keeper_create(&crew, "a", "make",
                        &(struct keeper_ask){.number = "start", .n = 6});
    assert_int_equal(6, keeper_peek(&crew, "a", 0));
    assert_int_equal(COX_ENOENT, keeper_run(&crew, "ask", "code",
                                            &(struct keeper_ask){.name = "b"}));
    assert_code(0, cox_close(crew.c, 1000));
    cox_cluster_free(cluster);
    program_kill(&worker, SIGTERM);
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker));
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
}

/* ---- clients that go on */

/* Leaves a checkpoint whose backlog has a closure that uses a resource, and that waits
 * at `gate`. */
static void leave_backlog(const struct cox_options *options, const char *gate)
{
    struct crew crew;
    keeper_open(&crew, 1, options);
    (void)crew_counter(&crew, "c0");
    (void)keeper_create_plain(&crew, "r");
    cox_future_free(
        keeper_start(&crew, "bump", &(struct keeper_ask){.name = "r", .path = gate}));
    int fd = gate_pass(gate);
    (void)keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "r"});
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    gate_release(fd);
    crew_close(&crew);
}

/* Opens a client that goes on from such a checkpoint; returns its counter. */
static struct cox_variable *go_on(struct crew *crew, const char *gate)
{
    struct cox_options options = COX_OPTIONS_INIT;
    coxi_test_expect_crashes();
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.speculate = -1;
    options.worker_slots = 2;
    leave_backlog(&options, gate);
    keeper_open(crew, 1, &options);
    return crew_counter(crew, "c0");
}

/*
 * The backlog's closures have lower ids than the resources that this client creates.
 * They must find these resources all the same, even on a worker that joins in the
 * middle of their replay.
 */
TEST(resource_of_a_client_that_goes_on_is_there_when_its_backlog_is_replayed)
{
    struct crew crew;
    const char *gate = gate_make("gate");
    struct cox_variable *c0 = go_on(&crew, gate);
    (void)keeper_create_plain(&crew, "r");
    assert_code(COX_ETIMEDOUT, cox_join(crew.c, 0));
    gate_release(gate_pass(gate));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, c0));

    crew_kill(crew_ps_process(&crew, 0));
    int held = gate_pass(gate); /* in the replay */
    pid_t process = crew_step_process(&crew, 0);
    crew_kill(process);
    crew_wait_gone(process);
    gate_release(gate_pass(gate)); /* by the next process */
    gate_release(held);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, c0));
    crew_close(&crew);
}

/* The program's writes before it schedules anything precede the backlog's closures,
 * also in a replay; so do resources that it makes from the written values. */
TEST(what_a_client_that_goes_on_writes_first_comes_before_its_backlog_in_a_replay)
{
    const int64_t written = 42;
    struct crew crew;
    const char *gate = gate_make("gate");
    struct cox_variable *c0 = go_on(&crew, gate);
    assert_code(0, cox_variable_assign(crew.c, c0, &written, sizeof(written)));
    (void)keeper_create(&crew, "r", "make_from_c0", &(struct keeper_ask){0});
    assert_code(COX_ETIMEDOUT, cox_join(crew.c, 0));
    gate_release(gate_pass(gate));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(43, crew_read(&crew, c0));

    pid_t process = crew_step_process(&crew, 0);
    crew_kill(crew_ps_process(&crew, 0));
    crew_kill(process);
    crew_wait_gone(process);
    gate_release(gate_pass(gate)); /* in the replay */
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(43, crew_read(&crew, c0));
    assert_int_equal(43, keeper_peek(&crew, "r", 0));
    crew_close(&crew);
}
