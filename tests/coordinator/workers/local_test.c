/* Workers on the client's host: reached over shared memory, and lost like any other. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/worker.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

struct look {
    const struct cox_coordinator *c;
    uint32_t worker;
    bool is_local;
    uint32_t n_threads;
};

static void take_look(void *arg)
{
    struct look *look = arg;
    const struct coxi_worker *worker = look->c->workers->all[look->worker];
    look->is_local = coxi_worker_is_there(worker) &&
                     coxi_link_is_local(coxi_conn_link(worker->control));
    look->n_threads = look->c->workers->n_local;
}

/* True if the worker is connected, over the local path. */
static bool is_local(struct cox_coordinator *c, uint32_t worker)
{
    struct look look = {.c = c, .worker = worker};
    inside_run(c, take_look, &look);
    return look.is_local;
}

/* How many workers' connections have a thread of the client. */
static uint32_t count_threads(struct cox_coordinator *c)
{
    struct look look = {.c = c};
    inside_run(c, take_look, &look);
    return look.n_threads;
}

/* Runs closures on all workers, and asserts that each counts once. */
static void check_work(struct crew *crew, struct cox_variable *counter)
{
    enum { N = 300 };
    int64_t before = crew_read(crew, counter);
    crew_schedule(crew, crew_function(crew, "count"), N, 1);
    assert_code(0, cox_join(crew->c, -1));
    assert_int_equal(before + N, crew_read(crew, counter));
}

TEST(workers_on_this_host_are_reached_over_the_local_path)
{
    struct crew crew;
    crew_open(&crew, 1, 2, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_true(is_local(crew.c, 0));
    assert_true(is_local(crew.c, 1));
    assert_int_equal(2, count_threads(crew.c));
    check_work(&crew, counter);
    crew_close(&crew);
}

TEST(worker_that_refuses_the_local_path_works_over_the_stream)
{
    struct crew crew;
    assert_int_equal(0, setenv("COX_WORKER_LOCAL_PATH", "off", 1));
    crew_open(&crew, 1, 2, "counter", NULL);
    assert_int_equal(0, unsetenv("COX_WORKER_LOCAL_PATH"));
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_false(is_local(crew.c, 0));
    assert_false(is_local(crew.c, 1));
    check_work(&crew, counter);
    crew_close(&crew);
}

/* More workers than the client has threads for. */
TEST(the_other_workers_of_many_are_reached_over_the_stream)
{
    enum { N = 18, LOCAL = 16 };
    struct crew crew;
    uint32_t n_local = 0;
    crew_open(&crew, 1, N, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    for (uint32_t i = 0; i < N; i++) {
        n_local += is_local(crew.c, i);
    }
    assert_int_equal(LOCAL, n_local);
    assert_int_equal(LOCAL, count_threads(crew.c));
    check_work(&crew, counter);
    crew_close(&crew);
}

struct return_of {
    struct crew *crew;
    uint64_t lost; /* how many losses the client has counted by then */
};

static bool is_back(void *arg)
{
    const struct return_of *wanted = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(wanted->crew->c, &stats));
    return stats.workers_lost == wanted->lost && stats.workers_ready == 2;
}

TEST(killed_worker_is_lost_at_once_and_comes_back_over_the_local_path)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 120000; /* so that the loss is not noticed by silence */
    crew_open(&crew, 1, 2, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    for (uint64_t n = 1; n <= 3; n++) {
        struct return_of wanted = {&crew, n};
        crew_schedule(&crew, crew_function(&crew, "count"), 300, 1);
        crew_kill(crew_step_process(&crew, 0));
        assert_code(0, cox_join(crew.c, -1));
        assert_int_equal((int64_t)n * 300, crew_read(&crew, counter));
        coxi_test_until(is_back, &wanted, "the return of the worker");
        assert_true(is_local(crew.c, 0));
        assert_int_equal(2, count_threads(crew.c));
    }
    crew_close(&crew);
}

static bool is_lost(void *arg)
{
    struct crew *crew = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.workers_lost == 1;
}

TEST(worker_that_stands_still_is_lost_by_its_silence)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 1000;
    crew_open(&crew, 1, 2, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_true(is_local(crew.c, 0));
    pid_t supervisor = crew_supervisor(&crew, 0);
    pid_t steps = crew_step_process(&crew, 0);
    crew_stop(supervisor); /* so that it starts no other process */
    crew_stop(steps);
    crew_schedule(&crew, crew_function(&crew, "count"), 300, 1);
    coxi_test_until(is_lost, &crew, "the loss of the worker");
    assert_code(0, cox_join(crew.c, -1)); /* on the other worker */
    assert_int_equal(300, crew_read(&crew, counter));
    assert_int_equal(0, kill(steps, SIGCONT));
    assert_int_equal(0, kill(supervisor, SIGCONT));
    crew_close(&crew);
}

TEST(close_waits_for_no_worker_that_stands_still)
{
    enum { MOST_MS = 6000 };
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 120000;
    crew_open(&crew, 1, 2, "counter", &options);
    assert_true(is_local(crew.c, 1));
    crew_stop(crew_step_process(&crew, 1));
    uint64_t since_ms = coxi_now_ms();
    assert_code(0, cox_close(crew.c, 300));
    assert_true(coxi_now_ms() - since_ms < MOST_MS);
}
