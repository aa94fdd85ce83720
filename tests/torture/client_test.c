/* A client's life, with each allocation of a part of it failing once. The ps and the
 * worker are processes of their own, and serve one client after the other. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/coxswain.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"
#include "tests/torture/torture.h"

enum { STEPS = 4, PATIENCE_MS = 8000, DIM = 4, KEYS = 3, PARTS_MAX = 8 };

struct life;
typedef int life_part(struct life *life);

struct life {
    life_part *parts[PARTS_MAX]; /* in this order; in the last one allocations fail */
    struct program ps;
    struct program worker;
    char ps_url[256];
    struct cox_cluster *cluster;
    struct cox_options options;
    const char *kept; /* paths of modules */
    const char *resource;
    int n_directories;

    /* ---- the client's */
    struct cox_coordinator *c;
    struct cox_variable *counter;
    struct cox_table *table;
    struct cox_metric *metric;
    struct cox_function *sum;
    struct cox_reader *reader;
    struct cox_future *futures[STEPS];
};

static void ignore_event(void *arg, const struct cox_event *event)
{
    (void)arg;
    (void)event;
}

static void start_daemon(struct program *program, const char *name, char ret_url[256])
{
    char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path(name));
    daemon_start(program, name, 0, listen, ret_url);
}

static void life_begin(struct life *life)
{
    char worker[256];
    char json[600];
    life->options = (struct cox_options)COX_OPTIONS_INIT;
    start_daemon(&life->ps, "coxswain-ps", life->ps_url);
    start_daemon(&life->worker, "coxswain-worker", worker);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   life->ps_url, worker);
    assert_code(0, cox_cluster_parse(json, &life->cluster));
    life->options.on_event = ignore_event;
    life->options.open_timeout_ms = PATIENCE_MS;
    life->options.checkpoint_at_close = -1;
    life->kept = coxi_test_module("kept");
    life->resource = coxi_test_module("resource");
}

static void life_end(struct life *life)
{
    cox_cluster_free(life->cluster);
    program_kill(&life->ps, SIGTERM);
    program_kill(&life->worker, SIGTERM);
    (void)program_wait(&life->worker);
    (void)program_wait(&life->ps);
}

/* ---- the parts */

static int open_client(struct life *life)
{
    return cox_open(life->cluster, &life->options, &life->c);
}

/* In a directory of its own each time. */
static int open_saving(struct life *life)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/run-%d", coxi_test_dir(),
                   life->n_directories);
    life->options.checkpoint_dir = path;
    int r = open_client(life);
    life->options.checkpoint_dir = NULL;
    return r;
}

static int create_values(struct life *life)
{
    struct cox_variable_spec counter = COX_VARIABLE_SPEC_INIT;
    counter.name = "c0";
    counter.dtype = COX_I64;
    counter.rank = 1;
    counter.shape[0] = 1;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    table.name = "t";
    table.dim = DIM;
    table.optimizer.kind = COX_SGD;
    table.optimizer.learning_rate = 1;
    struct cox_metric_spec metric = COX_METRIC_SPEC_INIT;
    metric.name = "m";
    metric.kind = COX_METRIC_MEAN;
    int r = cox_variable_create(life->c, &counter, &life->counter);
    r = r == 0 ? cox_table_create(life->c, &table, &life->table) : r;
    return r == 0 ? cox_metric_create(life->c, &metric, &life->metric) : r;
}

static int load_module(struct life *life)
{
    struct cox_module *module = NULL;
    int r = cox_module_load(life->c, life->kept, &module);
    return r == 0 ? cox_function_get(module, "sum", &life->sum) : r;
}

static int create(struct life *life)
{
    int r = create_values(life);
    return r == 0 ? load_module(life) : r;
}

static int schedule(struct life *life, const struct cox_call *more,
                    struct cox_future **ret)
{
    const int64_t one = 1;
    const struct cox_value arg = COX_SCALAR("own", COX_I64, &one);
    struct cox_call call = *more;
    call.args = &arg;
    call.n_args = 1;
    return cox_schedule(life->c, life->sum, &call, ret);
}

static int step(struct life *life)
{
    const struct cox_call call = COX_CALL_INIT;
    int r = 0;
    for (int i = 0; r == 0 && i < STEPS; i++) {
        r = schedule(life, &call, &life->futures[i]);
    }
    r = r == 0 ? cox_join(life->c, PATIENCE_MS) : r;
    struct cox_value x;
    return r == 0 ? cox_future_result(life->futures[0], "x", &x) : r;
}

static void count_call(void *arg, struct cox_future *future)
{
    (void)future;
    ++*(int *)arg;
}

/* Each call takes the kept result of the one before. */
static int step_on_results(struct life *life)
{
    static int n_called;
    struct cox_input input = {.name = "a", .result = "x"};
    struct cox_call call = COX_CALL_INIT;
    size_t first;
    call.keep = 1;
    int r = schedule(life, &call, &life->futures[0]);
    for (int i = 1; r == 0 && i < STEPS; i++) {
        input.future = life->futures[i - 1];
        call.inputs = &input;
        call.n_inputs = 1;
        r = schedule(life, &call, &life->futures[i]);
        r = r == 0 ? cox_future_then(life->futures[i], count_call, &n_called) : r;
    }
    r = r == 0 ? cox_wait_any(life->futures, STEPS, PATIENCE_MS, &first) : r;
    r = r == 0 ? cox_future_fetch(life->futures[STEPS - 1], PATIENCE_MS) : r;
    return r == 0 ? cox_join(life->c, PATIENCE_MS) : r;
}

static int make_resource(struct life *life)
{
    struct cox_module *module = NULL;
    struct cox_function *make = NULL;
    struct cox_resource *resource = NULL;
    int r = cox_module_load(life->c, life->resource, &module);
    r = r == 0 ? cox_function_get(module, "make", &make) : r;
    r = r == 0 ? cox_resource_create(life->c, "r", make, NULL, &resource) : r;
    r = r == 0 ? step(life) : r;
    cox_resource_release(resource);
    return r;
}

static int read_and_write(struct life *life)
{
    const uint64_t keys[KEYS] = {1, 2, 3};
    float rows[KEYS * DIM];
    int64_t value = 5;
    double mean;
    double weight;
    struct cox_table_stats table_stats = COX_TABLE_STATS_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    int r = cox_variable_assign(life->c, life->counter, &value, sizeof(value));
    r = r == 0 ? cox_variable_add(life->c, life->counter, &value, sizeof(value)) : r;
    r = r == 0 ? cox_variable_read(life->c, life->counter, &value, sizeof(value)) : r;
    assert_int_equal(r == 0 ? 10 : value, value);
    r = r == 0 ? cox_table_set_rate(life->c, life->table, 0.5F, NULL) : r;
    r = r == 0 ? cox_table_read(life->c, life->table, keys, KEYS, rows) : r;
    r = r == 0 ? cox_table_stats(life->c, life->table, &table_stats) : r;
    r = r == 0 ? cox_metric_read(life->c, life->metric, &mean, &weight) : r;
    r = r == 0 ? cox_metric_reset(life->c, life->metric) : r;
    return r == 0 ? cox_stats(life->c, &stats) : r;
}

static int read_beside(struct life *life)
{
    struct cox_reader_variable variable = COX_READER_VARIABLE_INIT;
    const uint64_t key = 7;
    float row[DIM];
    int64_t value;
    double mean;
    double weight;
    int r = cox_reader_open(life->cluster, NULL, &life->reader);
    r = r == 0 ? cox_reader_describe(life->reader, "t", &variable) : r;
    r = r == 0 ? cox_reader_read(life->reader, "c0", &value, sizeof(value)) : r;
    r = r == 0 ? cox_reader_lookup(life->reader, "t", &key, 1, DIM, row) : r;
    return r == 0 ? cox_reader_metric(life->reader, "m", &mean, &weight) : r;
}

static int save(struct life *life)
{
    uint64_t number;
    return cox_checkpoint_save(life->c, NULL, &number);
}

static int load(struct life *life)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/run-%d", coxi_test_dir(),
                   life->n_directories);
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    options.path = path;
    return cox_checkpoint_load(life->c, &options, NULL);
}

static void close_futures(struct life *life)
{
    for (int i = 0; i < STEPS; i++) {
        cox_future_free(life->futures[i]);
        life->futures[i] = NULL;
    }
}

static int close_client(struct life *life)
{
    struct cox_coordinator *c = life->c;
    life->c = NULL;
    close_futures(life);
    cox_reader_close(life->reader);
    life->reader = NULL;
    life->sum = NULL;
    return cox_close(c, PATIENCE_MS);
}

/* A ps is lost, and comes back empty; reading waits until it has everything. */
static int recover(struct life *life)
{
    int64_t value;
    torture_calm();
    program_kill(&life->ps, SIGKILL);
    (void)program_wait(&life->ps);
    start_daemon(&life->ps, "coxswain-ps", life->ps_url);
    torture_calm_end();
    int r = cox_variable_read(life->c, life->counter, &value, sizeof(value));
    assert_int_equal(r == 0 ? STEPS : value, value);
    return r;
}

/* ---- all of them */

static int play(void *arg)
{
    struct life *life = arg;
    int r = 0;
    torture_calm();
    life->n_directories++;
    for (int i = 0; r == 0 && life->parts[i] != NULL; i++) {
        if (life->parts[i + 1] == NULL) {
            torture_calm_end();
        }
        r = life->parts[i](life);
        torture_calm();
    }
    char text[256];
    (void)snprintf(text, sizeof(text), "%s", cox_error_last());
    if (life->c != NULL && life->sum != NULL) { /* it goes on */
        close_futures(life);
        if (r != 0) {
            (void)cox_join(life->c, PATIENCE_MS); /* it may report the same error */
        }
        assert_code(0, step(life));
    }
    assert_code(0, close_client(life));
    (void)coxi_error(0, "%s", text);
    return r;
}

/* At least `least` allocations fail. */
static void torture_of(struct life *life, size_t least)
{
    life_begin(life);
    assert_in_range(torture(play, life), least, 10000);
    life_end(life);
}

TEST(torture_of_open)
{
    torture_of(&(struct life){.parts = {open_client}}, 30);
}

TEST(torture_of_creations)
{
    torture_of(&(struct life){.parts = {open_client, create}}, 10);
}

TEST(torture_of_steps)
{
    torture_of(&(struct life){.parts = {open_client, create, step}}, 10);
}

TEST(torture_of_steps_on_results)
{
    torture_of(&(struct life){.parts = {open_client, create, step_on_results}}, 10);
}

TEST(torture_of_resources)
{
    torture_of(&(struct life){.parts = {open_client, create, make_resource}}, 10);
}

TEST(torture_of_reads_and_writes)
{
    torture_of(&(struct life){.parts = {open_client, create, read_and_write}}, 10);
}

TEST(torture_of_a_reader)
{
    torture_of(&(struct life){.parts = {open_client, create, read_beside}}, 10);
}

TEST(torture_of_a_checkpoint)
{
    torture_of(&(struct life){.parts = {open_saving, create, step, save}}, 10);
}

TEST(torture_of_a_warm_start)
{
    torture_of(&(struct life){.parts = {open_saving, create, step, save, load}}, 10);
}

/* The rest has many allocations: its tests share them. */
static void torture_a_share_of(struct life *life, size_t first, size_t stride)
{
    life_begin(life);
    assert_in_range(torture_some(play, life, first, stride), 1, 10000);
    life_end(life);
}

static void torture_going_on(size_t first)
{
    torture_a_share_of(&(struct life){.parts = {open_saving, create, step, save,
                                                close_client, open_saving}},
                       first, 2);
}

TEST(torture_of_a_run_that_goes_on_first_share)
{
    torture_going_on(0);
}

TEST(torture_of_a_run_that_goes_on_second_share)
{
    torture_going_on(1);
}

static void torture_recovery(size_t first)
{
    torture_a_share_of(
        &(struct life){.parts = {open_saving, create, save, step, recover}}, first, 3);
}

TEST(torture_of_a_recovery_first_share)
{
    torture_recovery(0);
}

TEST(torture_of_a_recovery_second_share)
{
    torture_recovery(1);
}

TEST(torture_of_a_recovery_third_share)
{
    torture_recovery(2);
}

TEST(torture_of_close)
{
    torture_of(&(struct life){.parts = {open_saving, create, save, step, close_client}},
               1);
}
