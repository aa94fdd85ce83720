/* A ps is away until the test starts it again; a worker may be away, too. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/coordinator.h"
#include "coordinator/workers/workers.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/steps/follow.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

enum { N_PS = 2 };

/* Two ps that nobody starts again, and a worker that dials. c0 is on ps 0, c1 on
 * ps 1. */
struct pair {
    struct crew crew;
    struct cox_cluster *cluster;
    struct program ps[N_PS];
    char addresses[N_PS][256];
    struct program worker;
    struct cox_variable *counters[N_PS];
};

static void start_worker(struct pair *pair)
{
    program_start(&pair->worker,
                  (const char *[]){"coxswain-worker", "--client",
                                   cox_listen_address(pair->crew.c), NULL});
}

static void pair_open(struct pair *pair, int worker_wait_ms)
{
    char json[600];
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_wait_ms = worker_wait_ms;
    *pair = (struct pair){0};
    for (int i = 0; i < N_PS; i++) {
        daemon_start(&pair->ps[i], "coxswain-ps", i, "tcp://127.0.0.1:0",
                     pair->addresses[i]);
    }
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\", \"%s\"]}", pair->addresses[0],
                   pair->addresses[1]);
    assert_code(0, cox_cluster_parse(json, &pair->cluster));
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.listen = "tcp://127.0.0.1:0";
    assert_code(0, cox_open(pair->cluster, &options, &pair->crew.c));
    assert_code(0, cox_module_load(pair->crew.c, coxi_test_module("probe"),
                                   &pair->crew.module));
    pair->counters[0] = crew_counter(&pair->crew, "c0");
    pair->counters[1] = crew_counter(&pair->crew, "c1");
    start_worker(pair);
}

static void kill_worker(struct pair *pair)
{
    program_kill(&pair->worker, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&pair->worker));
}

static void pair_close(struct pair *pair)
{
    assert_code(0, cox_close(pair->crew.c, 5000));
    for (int i = 0; i < N_PS; i++) {
        program_kill(&pair->ps[i], SIGTERM);
        assert_int_equal(128 + SIGTERM, program_wait(&pair->ps[i]));
    }
    kill_worker(pair);
    cox_cluster_free(pair->cluster);
}

static struct cox_future *follow(struct pair *pair, const int64_t *script, size_t n,
                                 const char *path)
{
    struct cox_future *future;
    struct cox_call call = COX_CALL_INIT;
    const struct cox_value args[] = {
        COX_VECTOR("script", COX_I64, n, script),
        COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
    };
    call.args = args;
    call.n_args = 2;
    assert_code(0, cox_schedule(pair->crew.c, crew_function(&pair->crew, "follow"),
                                &call, &future));
    return future;
}

/*
 * Starts a step that flushes to ps 0, and fails while ps 1 is stopped. When this
 * returns, ps 0 has said what it has applied of the closure, and the client waits for
 * ps 1.
 */
static struct cox_future *fail_after_flush(struct pair *pair)
{
    static const int64_t script[] = {0, FOLLOW_FLUSH, FOLLOW_WAIT, FOLLOW_FAIL};
    static const int64_t nothing[] = {FOLLOW_PULL};
    const char *path = gate_make("gate");
    struct cox_future *future = follow(pair, script, 4, path);
    int fd = gate_pass(path);
    program_pause(&pair->ps[1]);
    gate_release(fd);
    struct cox_future *behind = follow(pair, nothing, 1, "");
    /* the worker reports both closures in order */
    assert_code(0, cox_future_wait(behind, 8000));
    cox_future_free(behind);
    assert_int_equal(1,
                     /* ps 0 answers this read after that question */
                     crew_read(&pair->crew, pair->counters[0]));
    return future;
}

static bool is_lost(void *arg)
{
    return coxi_ps_losses(((struct pair *)arg)->crew.c) == 1;
}

static void lose_ps(struct pair *pair, int index)
{
    program_kill(&pair->ps[index], SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&pair->ps[index]));
    coxi_test_until(is_lost, pair, "the loss of a ps");
}

static void start_ps_again(struct pair *pair, int index)
{
    char address[256];
    (void)snprintf(address, sizeof(address), "%s", pair->addresses[index]);
    daemon_start(&pair->ps[index], "coxswain-ps", index, address,
                 pair->addresses[index]);
}

TEST(closure_is_not_told_partial_on_a_ps_that_was_set_back_before_its_end)
{
    struct pair pair;
    pair_open(&pair, 0);
    struct cox_future *future = fail_after_flush(&pair);
    lose_ps(&pair, 0);
    program_kill(&pair.ps[1], SIGCONT);
    /* Until ps 0 is back, nobody knows what it has applied of the closure. */
    assert_code(COX_ETIMEDOUT, cox_future_wait(future, 500));
    start_ps_again(&pair, 0);
    assert_code(COX_ESTEP, cox_future_wait(future, 8000));
    assert_null(strstr(cox_error_last(), "applied"));
    assert_code(COX_ESTEP, cox_join(pair.crew.c, 8000));
    assert_int_equal(0, crew_read(&pair.crew, pair.counters[0]));
    cox_future_free(future);
    pair_close(&pair);
}

/* How many workers take closures. Asks no ps. */
static uint32_t count_ready(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint32_t n = c->workers->n_ready;
    coxi_unlock(&c->lock);
    return n;
}

static bool is_ready(void *arg)
{
    return count_ready(((struct pair *)arg)->crew.c) == 1;
}

static bool is_alone(void *arg)
{
    return count_ready(((struct pair *)arg)->crew.c) == 0;
}

TEST(closures_wait_for_workers_as_long_as_for_a_ps_while_one_is_away)
{
    static const int64_t script[] = {0, 1};
    struct pair pair;
    pair_open(&pair, 1000);
    coxi_test_until(is_ready, &pair, "the worker");
    lose_ps(&pair, 0);
    kill_worker(&pair);
    coxi_test_until(is_alone, &pair, "the loss of the worker");
    struct cox_future *future = follow(&pair, script, 2, "");
    /* Twice as long as closures wait if only workers are missing. */
    assert_code(COX_ETIMEDOUT, cox_future_wait(future, 2000));
    start_worker(&pair);
    coxi_test_until(is_ready, &pair, "the worker");
    start_ps_again(&pair, 0);
    assert_code(0, cox_future_wait(future, 8000));
    cox_future_free(future);
    pair_close(&pair);
}
