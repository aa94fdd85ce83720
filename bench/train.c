/*
 * Case `train`: examples a second of the click model (examples/ctr), on a local
 * cluster, against the same step function run in this process on the ps's own store,
 * without links. lr, fm   1 ps and 1 worker, of one slot and of two (the steps are
 * thread-safe); then 1 ps and 2 workers
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/local_step.h"
#include "coxswain/coxswain.h"
#include "examples/ctr/data.h"
#include "examples/ctr/model.h"

enum { ROWS = 60000, ROWS_PER_STEP = 64 };

struct job {
    char path[128];
    struct range *ranges;
    size_t n_ranges;
    char module[4200];
};

static const struct cox_optimizer adagrad = {.kind = COX_ADAGRAD,
                                             .learning_rate = 0.1F,
                                             .epsilon = 1e-7F,
                                             .initial_accumulator = 100};

static void fill_args(const struct job *job, size_t i, const double *l2,
                      struct cox_value args[5])
{
    const struct range *range = &job->ranges[i % job->n_ranges];
    args[0] =
        (struct cox_value)COX_VECTOR("path", COX_U8, strlen(job->path), job->path);
    args[1] = (struct cox_value)COX_SCALAR("offset", COX_I64, &range->offset);
    args[2] = (struct cox_value)COX_SCALAR("len", COX_I64, &range->len);
    args[3] = (struct cox_value)COX_SCALAR("line", COX_I64, &range->line);
    args[4] = (struct cox_value)COX_SCALAR("l2", COX_F64, l2);
}

/* ---- on a cluster */

static struct cox_coordinator *open_crew(const struct job *job, uint32_t dim,
                                         int n_workers, uint32_t slots,
                                         struct cox_function **ret)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_table *table;
    struct cox_variable *bias;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_table_spec weights = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    bench_check(cox_cluster_local(1, n_workers, &cluster), "cluster");
    options.worker_slots = slots;
    bench_check(cox_open(cluster, &options, &c), "open");
    cox_cluster_free(cluster);
    weights.name = "weights";
    weights.dim = dim;
    weights.optimizer = adagrad;
    weights.initializer = (struct cox_initializer){COX_NORMAL, 0, 0.01F, 1};
    bench_check(cox_table_create(c, &weights, &table), "table");
    spec.name = "bias";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 1;
    spec.optimizer = adagrad;
    bench_check(cox_variable_create(c, &spec, &bias), "variable");
    bench_check(cox_module_load(c, job->module, &module), "module");
    bench_check(cox_function_get(module, "train", ret), "function");
    return c;
}

static struct bench_sample on_cluster(const struct job *job, struct cox_coordinator *c,
                                      struct cox_function *train, double seconds)
{
    const double l2 = 0.01;
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < job->n_ranges; i++) {
            struct cox_value args[5];
            struct cox_call call = COX_CALL_INIT;
            fill_args(job, i, &l2, args);
            call.args = args;
            call.n_args = 5;
            bench_check(cox_schedule(c, train, &call, NULL), "schedule");
        }
        bench_check(cox_join(c, -1), "join");
        n += ROWS;
    } while (bench_now() - start < seconds);
    return (struct bench_sample){.value = (double)n / (bench_now() - start)};
}

/* ---- in this process */

static double in_process(const struct job *job, struct local_step *local,
                         int (*train)(struct cox_step *step), double seconds)
{
    const double l2 = 0.01;
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < job->n_ranges; i++) {
            struct cox_value args[5];
            fill_args(job, i, &l2, args);
            local_step_run(local, train, args, 5);
        }
        n += ROWS;
    } while (bench_now() - start < seconds);
    return (double)n / (bench_now() - start);
}

/* ---- */

static void measure(struct bench *bench, const struct job *job, const char *name,
                    uint32_t dim, int n_workers, uint32_t slots)
{
    char params[128];
    struct cox_function *train;
    void *module = dlopen(job->module, RTLD_NOW | RTLD_LOCAL);
    const struct cox_step_entry *entries =
        module != NULL ? dlsym(module, "cox_steps") : NULL;
    if (entries == NULL) {
        bench_die("%s", dlerror());
    }
    struct local_step *local = local_step_new(dim);
    struct cox_coordinator *c = open_crew(job, dim, n_workers, slots, &train);
    (void)snprintf(params, sizeof(params),
                   "{\"ps\":1,\"workers\":%d,\"slots\":%u,\"rows_per_step\":%d,"
                   "\"features\":20}",
                   n_workers, slots, ROWS_PER_STEP);
    struct bench_measurement m = {.name = name,
                                  .params = params,
                                  .unit = "1/s",
                                  .baseline_name = "the same step without links"};
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = in_process(job, local, entries[0].run, seconds);
        m.value[m.n_rounds] = on_cluster(job, c, train, seconds);
    }
    bench_report(bench, "train", &m);
    bench_check(cox_close(c, 5000), "close");
    local_step_free(local);
    (void)dlclose(module);
}

void bench_train(struct bench *bench)
{
    static const struct {
        int n_workers;
        uint32_t slots;
    } crews[] = {{1, 1}, {1, 2}, {2, 1}};
    struct job job;
    struct data_error error;
    (void)snprintf(job.path, sizeof(job.path), "%s/clicks", bench->dir);
    (void)snprintf(job.module, sizeof(job.module), "%s", bench->self);
    (void)strcpy(strrchr(job.module, '/') + 1, "ctr_steps.so");
    if (clicks_generate(job.path, ROWS, 1, 0, &error) != 0 ||
        ranges_of(job.path, ROWS_PER_STEP, &job.ranges, &job.n_ranges, &error) != 0) {
        bench_die("%s", error.text);
    }
    for (size_t i = 0; i < sizeof(crews) / sizeof(*crews); i++) {
        measure(bench, &job, "lr", MODEL_LR_DIM, crews[i].n_workers, crews[i].slots);
        measure(bench, &job, "fm", MODEL_FM_DIM, crews[i].n_workers, crews[i].slots);
    }
    free(job.ranges);
}
