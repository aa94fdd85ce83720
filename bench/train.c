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
#include <string.h>

#include "bench/bench.h"
#include "bench/chaos.h"
#include "bench/click_job.h"
#include "bench/click_model.h"
#include "bench/local_step.h"
#include "coxswain/coxswain.h"

enum { SAVE_S = 5 };

/* ---- on a cluster */

static struct bench_sample on_cluster(const struct click_job *job,
                                      struct cox_coordinator *c,
                                      struct cox_function *train, double seconds)
{
    double n = 0;
    double start = bench_now();
    do {
        n += click_job_pass(job, c, train);
    } while (bench_now() - start < seconds);
    return (struct bench_sample){.value = n / (bench_now() - start)};
}

/* ---- in this process */

static double in_process(const struct click_job *job, struct local_step *local,
                         int (*train)(struct cox_step *step), double seconds)
{
    const double l2 = 0.01;
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < job->n_ranges; i++) {
            struct cox_value args[5];
            click_job_args(job, i, &l2, args);
            local_step_run(local, train, args, 5);
        }
        n += CLICK_ROWS;
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

static void run_side(const struct click_job *job, struct side *side, double seconds)
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
static void compare(struct bench *bench, const struct click_job *job, const char *name,
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

static void measure_record(struct bench *bench, const struct click_job *job,
                           const char *name, uint32_t dim, bool saved)
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
    sides[0].c = click_job_open(job, dim, 1, &bare, "train", &sides[0].train);
    sides[1].c = click_job_open(job, dim, 1, &recorded, "train", &sides[1].train);
    for (int k = 0; k < 2; k++) { /* makes the rows */
        run_side(job, &sides[k], 0);
    }
    compare(bench, job, full, sides, saved ? 2 * SAVE_S : 0,
            saved ? 4 * SAVE_S : bench->seconds);
    bench_check(cox_close(sides[0].c, 5000), "close");
    bench_check(cox_close(sides[1].c, 5000), "close");
}

/* ---- the case */

static void measure(struct bench *bench, const struct click_job *job, const char *name,
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
    struct cox_coordinator *c =
        click_job_open(job, dim, n_workers, &options, "train", &train);
    (void)snprintf(params, sizeof(params),
                   "{\"ps\":1,\"workers\":%d,\"slots\":%u,\"rows_per_step\":%d,"
                   "\"features\":20}",
                   n_workers, slots, CLICK_ROWS_PER_STEP);
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
    struct click_job job;
    click_job_init(bench, &job);
    for (size_t i = 0; i < sizeof(crews) / sizeof(*crews); i++) {
        measure(bench, &job, "lr", MODEL_LR_DIM, crews[i].n_workers, crews[i].slots);
        measure(bench, &job, "fm", MODEL_FM_DIM, crews[i].n_workers, crews[i].slots);
    }
    for (int saved = 0; saved < 2; saved++) {
        measure_record(bench, &job, "lr", MODEL_LR_DIM, saved != 0);
        measure_record(bench, &job, "fm", MODEL_FM_DIM, saved != 0);
    }
    click_job_fini(&job);
    bench_train_data(bench);
}
