/* Readers: programs that read a run's values meanwhile. The run is another process. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { N_PS = 2, W = 600, DIM = 2, KEYS = 3, READ_MS = 8000, HASTY_MS = 300 };

static const uint64_t keys[KEYS] = {7, 8, 9};

/* The daemons, and a process that trains with them. */
struct run {
    struct program ps[N_PS];
    char ps_addresses[N_PS][256];
    struct program worker;
    struct cox_cluster *cluster;
    const char *dir; /* of checkpoints, or NULL */
    /* set: a client that is started creates w, then pauses until the test lets it go on
     * and create the rest */
    bool pauses;
};

static void daemons_start(struct run *run)
{
    char worker[256];
    char json[1024];
    *run = (struct run){0};
    for (int p = 0; p < N_PS; p++) {
        daemon_start(&run->ps[p], "coxswain-ps", p, "tcp://127.0.0.1:0",
                     run->ps_addresses[p]);
    }
    daemon_start(&run->worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"%s\", \"%s\"], \"worker\": [\"%s\"]}",
                   run->ps_addresses[0], run->ps_addresses[1], worker);
    assert_code(0, cox_cluster_parse(json, &run->cluster));
}

static void stop(struct program *program)
{
    program_kill(program, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(program));
}

static void daemons_stop(struct run *run)
{
    for (int p = 0; p < N_PS; p++) {
        stop(&run->ps[p]);
    }
    stop(&run->worker);
    cox_cluster_free(run->cluster);
}

static const struct cox_optimizer sgd = {.kind = COX_SGD, .learning_rate = 1};

static void create_w(struct crew *crew)
{
    struct cox_variable *w;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "w";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = W;
    spec.shards = N_PS;
    spec.optimizer = sgd;
    assert_code(0, cox_variable_create(crew->c, &spec, &w));
}

static void create_others(struct crew *crew)
{
    struct cox_table *t;
    struct cox_metric *metric;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_metric_spec count = {sizeof(count), "count", COX_METRIC_COUNT, 0};
    table.name = "t";
    table.dim = DIM;
    table.optimizer = sgd;
    assert_code(0, cox_table_create(crew->c, &table, &t));
    assert_code(0, cox_metric_create(crew->c, &count, &metric));
}

static void wait_to_go(int pipe)
{
    char byte;
    if (read(pipe, &byte, 1) != 1) {
        _exit(1);
    }
}

/* Trains for ever: each step lowers w and the rows of t by 1. */
static void train(const struct run *run, int pipe)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    const struct cox_value args[] = {COX_VECTOR("keys", COX_I64, KEYS, keys)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 1;
    options.checkpoint_dir = run->dir;
    options.ps_recovery_ms = 20000;
    assert_code(0, cox_open(run->cluster, &options, &crew.c));
    assert_code(0, cox_module_load(crew.c, coxi_test_module("model"), &crew.module));
    create_w(&crew);
    if (run->pauses) {
        wait_to_go(pipe);
    }
    create_others(&crew);
    struct cox_function *step = crew_function(&crew, "push_ones");
    for (;;) {
        assert_code(0, cox_schedule(crew.c, step, &call, NULL));
        assert_code(0, cox_join(crew.c, -1));
    }
}

struct client {
    pid_t pid;
    int go; /* a pipe: each byte lets the client begin, or go on after its pause */
};

/* Forks the client's process, while this process has no threads of the library. */
static void client_start(const struct run *run, struct client *client)
{
    int ends[2];
    assert_int_equal(0, pipe(ends));
    client->go = ends[1];
    client->pid = fork();
    assert_true(client->pid >= 0);
    if (client->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[1]);
        wait_to_go(ends[0]);
        train(run, ends[0]);
    }
    (void)close(ends[0]);
}

static void client_go(const struct client *client)
{
    assert_int_equal(1, write(client->go, "x", 1));
}

static void client_kill(struct client *client)
{
    int status = 0;
    assert_int_equal(0, kill(client->pid, SIGKILL));
    assert_int_equal(client->pid, waitpid(client->pid, &status, 0));
    assert_true(WIFSIGNALED(status));
    (void)close(client->go);
}

static bool is_set_up(void *arg)
{
    struct cox_reader_variable found = COX_READER_VARIABLE_INIT;
    return cox_reader_describe(arg, "count", &found) == 0;
}

static void reader_open_with(const struct run *run, int timeout_ms,
                             struct cox_reader **ret)
{
    struct cox_reader_options options = COX_READER_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    assert_code(0, cox_reader_open(run->cluster, &options, ret));
    coxi_test_until(is_set_up, *ret, "the variables of the run");
}

static void reader_open(const struct run *run, struct cox_reader **ret)
{
    reader_open_with(run, READ_MS, ret);
}

/* The value of w, which is the same for all elements on a ps. */
static float read_w(struct cox_reader *reader)
{
    float w[W];
    assert_code(0, cox_reader_read(reader, "w", w, sizeof(w)));
    for (size_t i = 0; i < W; i++) {
        if (w[i] != w[i < W / 2 ? 0 : W - 1]) {
            fail_msg("w[%zu] is %g beside %g", i, (double)w[i], (double)w[0]);
        }
    }
    return w[0];
}

static float read_t(struct cox_reader *reader)
{
    float rows[KEYS * DIM];
    assert_code(0, cox_reader_lookup(reader, "t", keys, KEYS, DIM, rows));
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(rows[i * DIM] == rows[i * DIM + 1]);
    }
    return rows[0];
}

struct sinking {
    struct cox_reader *reader;
    float last;
    float wanted;
    uint64_t run;
};

/* True when w and t have sunk to `wanted`; asserts that w never rises. */
static bool has_sunk(void *arg)
{
    struct sinking *s = arg;
    float w = read_w(s->reader);
    float t = read_t(s->reader);
    assert_true(w <= s->last);
    s->last = w;
    return w <= s->wanted && t <= s->wanted;
}

static void wait_until_sunk(struct cox_reader *reader, float wanted)
{
    struct sinking sinking = {.reader = reader, .wanted = wanted};
    coxi_test_until(has_sunk, &sinking, "training beside the reader");
}

TEST(another_process_reads_what_a_run_holds_while_it_trains)
{
    struct run run;
    struct client client;
    struct cox_reader *reader;
    struct cox_reader_variable found = COX_READER_VARIABLE_INIT;
    float w[W];
    double value = -1;
    daemons_start(&run);
    client_start(&run, &client);
    client_go(&client);
    reader_open(&run, &reader);
    assert_true(cox_reader_run(reader) != 0);
    wait_until_sunk(reader, -20);
    assert_code(0, cox_reader_describe(reader, "w", &found));
    assert_int_equal(0, found.table);
    assert_int_equal(COX_F32, found.dtype);
    assert_int_equal(1, found.rank);
    assert_int_equal(W, found.shape[0]);
    assert_code(0, cox_reader_describe(reader, "t", &found));
    assert_int_equal(1, found.table);
    assert_int_equal(DIM, found.shape[0]);
    assert_code(0, cox_reader_metric(reader, "count", &value, NULL));
    assert_float_equal(0, value, 0);
    assert_code(COX_EINVAL, cox_reader_metric(reader, "w", &value, NULL));
    assert_code(COX_EINVAL, cox_reader_read(reader, "w", w, sizeof(w) - 4));
    assert_code(COX_EINVAL, cox_reader_lookup(reader, "t", keys, KEYS, DIM + 1, w));
    assert_code(COX_EINVAL, cox_reader_lookup(reader, "w", keys, KEYS, DIM, w));
    assert_code(COX_ENOENT, cox_reader_read(reader, "nobody", w, sizeof(w)));
    assert_error_names("no variable called 'nobody'");
    cox_reader_close(reader);
    client_kill(&client);
    daemons_stop(&run);
}

static bool reads_another_run(void *arg)
{
    const struct sinking *s = arg;
    (void)read_w(s->reader);
    return cox_reader_run(s->reader) != s->run;
}

TEST(a_reader_follows_when_another_client_takes_the_ps)
{
    struct run run;
    struct client clients[2];
    struct cox_reader *reader;
    daemons_start(&run);
    client_start(&run, &clients[0]);
    client_start(&run, &clients[1]);
    client_go(&clients[0]);
    reader_open(&run, &reader);
    wait_until_sunk(reader, -5);
    struct sinking first = {.reader = reader, .run = cox_reader_run(reader)};
    client_kill(&clients[0]);
    float last = read_w(reader); /* w is still there */
    assert_true(last <= -5);
    client_go(&clients[1]);
    coxi_test_until(reads_another_run, &first, "the other run");
    wait_until_sunk(reader, -5);
    cox_reader_close(reader);
    client_kill(&clients[1]);
    daemons_stop(&run);
}

static bool finds_w_of_another_run(void *arg)
{
    const struct sinking *s = arg;
    float w[W];
    return cox_reader_read(s->reader, "w", w, sizeof(w)) == 0 &&
           cox_reader_run(s->reader) != s->run;
}

/* The reader reads a variable that the other client has created already, and then one
 * that it has not created yet. */
TEST(a_reader_waits_for_what_it_has_read_before_until_another_client_has_created_it)
{
    struct run run;
    struct client clients[2];
    struct cox_reader *reader;
    float rows[KEYS * DIM];
    daemons_start(&run);
    client_start(&run, &clients[0]);
    run.pauses = true;
    client_start(&run, &clients[1]);
    client_go(&clients[0]);
    reader_open_with(&run, HASTY_MS, &reader);
    struct sinking first = {.reader = reader, .run = cox_reader_run(reader)};
    client_kill(&clients[0]);
    client_go(&clients[1]);
    coxi_test_until(finds_w_of_another_run, &first, "the other run");
    uint64_t begun_ms = coxi_now_ms();
    assert_code(COX_ENOENT, cox_reader_lookup(reader, "t", keys, KEYS, DIM, rows));
    assert_true(coxi_now_ms() - begun_ms >= HASTY_MS);
    client_go(&clients[1]);
    coxi_test_until(is_set_up, reader, "the variables of the other run");
    cox_reader_close(reader);
    client_kill(&clients[1]);
    daemons_stop(&run);
}

TEST(a_reader_waits_for_a_ps_that_comes_back)
{
    struct run run;
    struct client client;
    struct cox_reader *reader;
    char address[256];
    daemons_start(&run);
    run.dir = coxi_test_path("checkpoints");
    client_start(&run, &client);
    client_go(&client);
    reader_open(&run, &reader);
    wait_until_sunk(reader, -10);
    (void)snprintf(address, sizeof(address), "%s", run.ps_addresses[1]);
    stop(&run.ps[1]);
    daemon_start(&run.ps[1], "coxswain-ps", 1, address, run.ps_addresses[1]);
    (void)read_w(reader); /* may be older, because the ps is being restored */
    uint64_t id = cox_reader_run(reader);
    wait_until_sunk(reader, -20);
    assert_true(id == cox_reader_run(reader));
    cox_reader_close(reader);
    client_kill(&client);
    daemons_stop(&run);
}

TEST(a_reader_says_that_there_is_no_run_or_no_ps)
{
    struct run run;
    struct cox_cluster *cluster;
    struct cox_reader *reader = NULL;
    struct cox_reader_options options = COX_READER_OPTIONS_INIT;
    daemons_start(&run);
    assert_code(COX_ENOENT, cox_reader_open(run.cluster, &options, &reader));
    assert_error_names("serves no run");
    stop(&run.ps[0]);
    options.timeout_ms = 300;
    assert_code(COX_ETIMEDOUT, cox_reader_open(run.cluster, &options, &reader));
    assert_error_names(run.ps_addresses[0]);
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(COX_EINVAL, cox_reader_open(cluster, NULL, &reader));
    cox_cluster_free(cluster);
    assert_null(reader);
    stop(&run.ps[1]);
    stop(&run.worker);
    cox_cluster_free(run.cluster);
}
