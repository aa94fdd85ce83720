/*
 * Case `footprint`: the resources that Coxswain uses when it has nothing to do, and for
 * closures that wait.
 *
 *   idle_client, idle_worker (both its processes), idle_ps, idle_launcher
 *                    CPU time of each, in per cent of a core
 *   empty_table      bytes of memory of a ps for a table without rows
 *   queued_closure   bytes of memory for a closure in the queue, without arguments
 *   returned_ps      bytes of memory that each return of a lost ps leaves in the client
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/chaos.h"
#include "bench/crew.h"

enum { WARM_UP = 20000, QUEUED = 100000, TABLES = 1000, RETURNS = 20 };

/* ---- idle */

/* CPU seconds used by all processes called `name` below this one. */
static double cpu_of(const char *name)
{
    static struct chaos_proc procs[CHAOS_PROCS_MAX];
    double sum = 0;
    size_t n = chaos_procs(procs);
    for (size_t i = 0; i < n; i++) {
        sum += strcmp(procs[i].name, name) == 0 ? bench_cpu_of(procs[i].pid) : 0;
    }
    return sum;
}

static void measure_idle(struct bench *bench)
{
    static const struct {
        const char *name;
        const char *process; /* NULL: this process */
    } roles[] = {
        {"idle_client", NULL},
        {"idle_worker", "coxswain-worker"},
        {"idle_ps", "coxswain-ps"},
        {"idle_launcher", "coxswain"},
    };
    enum { N = sizeof(roles) / sizeof(*roles) };
    struct crew crew;
    double before[N];
    crew_open(bench, 1, 1, NULL, &crew);
    for (int i = 0; i < WARM_UP; i++) {
        bench_check(cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL),
                    "schedule");
    }
    bench_check(cox_join(crew.c, -1), "join");
    for (size_t i = 0; i < N; i++) {
        before[i] = roles[i].process != NULL ? cpu_of(roles[i].process) : 0;
    }
    double self_before =
        bench_cpu_self(); /* after the look at the others, which uses some itself */
    double start = bench_now();
    time_t whole = (time_t)bench->seconds;
    struct timespec rest = {whole, (long)(1e9 * (bench->seconds - (double)whole))};
    (void)nanosleep(&rest, NULL);
    double self = bench_cpu_self() - self_before;
    for (size_t i = 0; i < N; i++) {
        struct bench_measurement m = {.name = roles[i].name,
                                      .params = "{\"workers\":1,\"ps\":1}",
                                      .unit = "%",
                                      .baseline_name = "what it may take",
                                      .baseline = {0.5},
                                      .n_rounds = 1};
        double now = roles[i].process != NULL ? cpu_of(roles[i].process) : self;
        m.value[0].value = 100 * (now - before[i]) / (bench_now() - start);
        bench_report(bench, "footprint", &m);
    }
    crew_close(&crew);
}

/* ---- queued closures */

static double allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static void measure_queue(struct bench *bench)
{
    struct crew crew;
    struct cox_future *last;
    struct chaos_worker worker;
    crew_open(bench, 1, 1, NULL, &crew);
    struct cox_function *nothing = crew_function(&crew, "nothing");
    chaos_procs_worker(0, &worker);
    (void)kill(worker.step.pid, SIGSTOP); /* so that the closures stay in the queue */
    double before = allocated();
    for (int i = 0; i < QUEUED; i++) {
        bench_check(cox_schedule(crew.c, nothing, NULL, NULL), "schedule");
    }
    /* When a closure that was scheduled after them is cancelled, the loop has all of
     * them in its queue. */
    bench_check(cox_schedule(crew.c, nothing, NULL, &last), "schedule");
    bench_check(cox_future_cancel(last), "cancel");
    (void)cox_future_wait(last, -1);
    cox_future_free(last);
    struct bench_measurement m = {.name = "queued_closure",
                                  .params = "{\"closures\":100000}",
                                  .unit = "bytes",
                                  .baseline_name = "what it may take",
                                  .baseline = {256},
                                  .n_rounds = 1};
    m.value[0].value = (allocated() - before) / QUEUED;
    (void)kill(worker.step.pid, SIGCONT);
    bench_report(bench, "footprint", &m);
    bench_check(cox_join(crew.c, -1), "join");
    crew_close(&crew);
}

/* ---- tables */

/* Bytes of a process's memory that it shares with no other. */
static double resident(pid_t pid)
{
    char path[64];
    char line[256];
    double kib = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        kib = strncmp(line, "RssAnon:", 8) == 0 ? strtod(line + 8, NULL) : kib;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return 1024 * kib;
}

static void measure_tables(struct bench *bench)
{
    struct crew crew;
    crew_open(bench, 1, 1, NULL, &crew);
    pid_t ps = chaos_procs_ps(0).pid;
    double before = resident(ps);
    for (int i = 0; i < TABLES; i++) {
        struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
        struct cox_table *table;
        char name[32];
        (void)snprintf(name, sizeof(name), "empty_%d", i);
        spec.name = name;
        spec.dim = 16;
        spec.optimizer.kind = COX_ADAGRAD;
        spec.optimizer.learning_rate = 0.1F;
        bench_check(cox_table_create(crew.c, &spec, &table), "table");
    }
    struct bench_measurement m = {.name = "empty_table",
                                  .params = "{\"tables\":1000}",
                                  .unit = "bytes",
                                  .baseline_name = "what it may take",
                                  .baseline = {8192},
                                  .n_rounds = 1};
    m.value[0].value = (resident(ps) - before) / TABLES;
    bench_report(bench, "footprint", &m);
    crew_close(&crew);
}

/* ---- ps that return */

static uint64_t count_returns(struct cox_coordinator *c)
{
    struct cox_stats stats = COX_STATS_INIT;
    bench_check(cox_stats(c, &stats), "stats");
    return stats.ps_recovered;
}

/* Kills the ps `n` times, and waits each time until it is restored. */
static void lose_ps(struct crew *crew, int n)
{
    const struct timespec rest = {0, 10000000};
    for (int i = 0; i < n; i++) {
        uint64_t before = count_returns(crew->c);
        (void)kill(chaos_procs_ps(0).pid, SIGKILL);
        while (count_returns(crew->c) == before) {
            (void)nanosleep(&rest, NULL);
        }
        bench_check(cox_join(crew->c, -1), "join");
    }
}

static void measure_returns(struct bench *bench)
{
    struct crew crew;
    char dir[128];
    struct cox_options options = COX_OPTIONS_INIT;
    (void)snprintf(dir, sizeof(dir), "%s/returns", bench->dir);
    options.checkpoint_dir = dir;
    options.checkpoint_at_close = -1;
    options.history = -1; /* whose memory has a bound of its own */
    crew_open(bench, 1, 1, &options, &crew);
    lose_ps(&crew, RETURNS / 4); /* memory that is allocated once exists then */
    double before = allocated();
    lose_ps(&crew, RETURNS);
    struct bench_measurement m = {.name = "returned_ps",
                                  .params = "{\"ps\":1}",
                                  .unit = "bytes",
                                  .baseline_name = "what it may take",
                                  .baseline = {4096},
                                  .n_rounds = 1};
    m.value[0].value = (allocated() - before) / RETURNS;
    bench_report(bench, "footprint", &m);
    crew_close(&crew);
}

void bench_footprint(struct bench *bench)
{
    measure_queue(bench); /* first, while no memory was freed */
    measure_tables(bench);
    measure_returns(bench);
    measure_idle(bench);
}
