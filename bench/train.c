/*
 * Case `train`: examples a second of a click model (click_steps.c), on a local
 * cluster.
 *
 *   lr, fm   1 ps and 1 worker, with one slot and with two (the steps are thread-safe);
 *            then 1 ps and 2 workers; against the same step function in this process on
 *            a ps's store, without links
 *   lr_recorded, fm_recorded
 *            the cost of counting exactly once: with the ps's applied set and the
 *            client's replay log, against the same without either (unrecorded.c);
 *            ..._cpu: CPU time of all processes for an example, against the baseline's
 *   lr_saved, fm_saved
 *            the same with a checkpoint every SAVE_S seconds as well
 *   lr_data, fm_data, lr_tasks, fm_tasks
 *            over a data set: train_data.c
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/chaos.h"
#include "bench/click_model.h"
#include "bench/click_rows.h"
#include "bench/local_step.h"
#include "coxswain/coxswain.h"
#include "examples/ctr/clicks.h"

enum {
    ROWS = 60000,
    ROWS_PER_STEP = 64,
    SAVE_S = 5,
};

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

/* Opens a local cluster; `options`: further options for it. */
static struct cox_coordinator *open_crew(const struct job *job, uint32_t dim,
                                         int n_workers,
                                         const struct cox_options *options,
                                         struct cox_function **ret)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_table *table;
    struct cox_variable *bias;
    struct cox_table_spec weights = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    bench_check(cox_cluster_local(1, n_workers, &cluster), "cluster");
    bench_check(cox_open(cluster, options, &c), "open");
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

/* ---- the cost of counting exactly once */

struct side {
    struct cox_coordinator *c;
    struct cox_function *train;
    double seconds; /* of this round */
    double cpu;     /* of all processes, while the other side has nothing to do */
    double n;
};

double bench_cpu_all(void)
{
    static struct chaos_proc procs[CHAOS_PROCS_MAX];
    double sum = bench_cpu_self();
    size_t n = chaos_procs(procs);
    for (size_t i = 0; i < n; i++) {
        sum += bench_cpu_of(procs[i].pid);
    }
    return sum;
}

static void run_side(const struct job *job, struct side *side, double seconds)
{
    double cpu = bench_cpu_all();
    double start = bench_now();
    double rate = on_cluster(job, side->c, side->train, seconds).value;
    double taken = bench_now() - start;
    side->seconds += taken;
    side->n += rate * taken;
    side->cpu += bench_cpu_all() - cpu;
}

/* Runs both sides in turns of `turn_s`, for about `seconds` a round. */
static void compare(struct bench *bench, const struct job *job, const char *name,
                    struct side sides[2], double turn_s, double seconds)
{
    char cpu_name[64];
    const char *params = "{\"ps\":1,\"workers\":1,\"slots\":2,\"rows_per_step\":64}";
    const char *baseline = "without applied set and replay log";
    (void)snprintf(cpu_name, sizeof(cpu_name), "%s_cpu", name);
    struct bench_measurement rate = {
        .name = name, .params = params, .unit = "1/s", .baseline_name = baseline};
    struct bench_measurement cpu = {
        .name = cpu_name, .params = params, .unit = "us", .baseline_name = baseline};
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        for (int k = 0; k < 2; k++) {
            sides[k].seconds = sides[k].cpu = sides[k].n = 0;
        }
        int first = 0; /* each side is second as often as the other */
        do {
            run_side(job, &sides[first], turn_s);
            run_side(job, &sides[1 - first], turn_s);
            first = 1 - first;
        } while (sides[0].seconds + sides[1].seconds < seconds);
        rate.value[i].value = sides[1].n / sides[1].seconds;
        rate.baseline[i] = sides[0].n / sides[0].seconds;
        cpu.value[i].value = 1e6 * sides[1].cpu / sides[1].n;
        cpu.baseline[i] = 1e6 * sides[0].cpu / sides[0].n;
    }
    rate.n_rounds = cpu.n_rounds = BENCH_ROUNDS;
    bench_report(bench, "train", &rate);
    bench_report(bench, "train", &cpu);
}

static void measure_record(struct bench *bench, const struct job *job, const char *name,
                           uint32_t dim, bool saved)
{
    char full[32];
    char bin_dir[sizeof(bench->self) + 32];
    char dir[128];
    struct side sides[2] = {{0}};
    struct cox_options bare = COX_OPTIONS_INIT;
    (void)snprintf(full, sizeof(full), "%s_%s", name, saved ? "saved" : "recorded");
    if (!bench_wants(bench, full)) {
        return;
    }
    (void)snprintf(bin_dir, sizeof(bin_dir), "%s", bench->self);
    (void)strcpy(strrchr(bin_dir, '/') + 1, "unrecorded");
    (void)snprintf(dir, sizeof(dir), "%s/%s", bench->dir, full);
    bare.worker_slots = 2;
    struct cox_options recorded = bare;
    bare.bin_dir = bin_dir;
    recorded.checkpoint_dir = dir;
    recorded.checkpoint_every_s = saved ? SAVE_S : 0;
    recorded.checkpoint_keep = 1;
    /* the log asks for no checkpoint itself */
    recorded.replay_log_bytes = UINT64_C(1) << 40;
    sides[0].c = open_crew(job, dim, 1, &bare, &sides[0].train);
    sides[1].c = open_crew(job, dim, 1, &recorded, &sides[1].train);
    for (int k = 0; k < 2; k++) { /* makes the rows */
        run_side(job, &sides[k], 0);
    }
    compare(bench, job, full, sides, saved ? 2 * SAVE_S : 0,
            saved ? 4 * SAVE_S : bench->seconds);
    bench_check(cox_close(sides[0].c, 5000), "close");
    bench_check(cox_close(sides[1].c, 5000), "close");
}

/* ---- the case */

static void measure(struct bench *bench, const struct job *job, const char *name,
                    uint32_t dim, int n_workers, uint32_t slots)
{
    char params[128];
    struct cox_function *train;
    if (!bench_wants(bench, name)) {
        return;
    }
    void *module = dlopen(job->module, RTLD_NOW | RTLD_LOCAL);
    const struct cox_step_entry *entries =
        module != NULL ? dlsym(module, "cox_steps") : NULL;
    if (entries == NULL) {
        bench_die("%s", dlerror());
    }
    struct local_step *local = local_step_new(dim);
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = slots;
    struct cox_coordinator *c = open_crew(job, dim, n_workers, &options, &train);
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
    (void)strcpy(strrchr(job.module, '/') + 1, "click_steps.so");
    const struct clicks clicks = {.n_rows = ROWS, .seed = 1, .ids = 5000};
    if (clicks_generate(job.path, &clicks, 0) != 0) {
        bench_die("cannot write %s", job.path);
    }
    if (ranges_of(job.path, ROWS_PER_STEP, &job.ranges, &job.n_ranges, &error) != 0) {
        bench_die("%s", error.text);
    }
    for (size_t i = 0; i < sizeof(crews) / sizeof(*crews); i++) {
        measure(bench, &job, "lr", MODEL_LR_DIM, crews[i].n_workers, crews[i].slots);
        measure(bench, &job, "fm", MODEL_FM_DIM, crews[i].n_workers, crews[i].slots);
    }
    for (int saved = 0; saved < 2; saved++) {
        measure_record(bench, &job, "lr", MODEL_LR_DIM, saved != 0);
        measure_record(bench, &job, "fm", MODEL_FM_DIM, saved != 0);
    }
    free(job.ranges);
    bench_train_data(bench);
}
