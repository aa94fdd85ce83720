/*
 * Case `scale`: one client and a crowd (crowd.h) of --workers simulated workers, with
 * --ps parameter servers.
 *   open            cox_open until every worker is ready
 *   memory          of the client for each worker, once all are connected
 *   empty_futures   empty closures from cox_schedule to cox_join, a future for each
 *   empty_plain     without futures
 *   empty_prefetch1 without futures, and at most two closures at a worker: the cost of
 *                   messages if closures are not as short as these
 *   memory_used     like memory, after that
 *   lose_busy       half of the workers are lost while closures run: time until all of
 *                   these closures have been settled by others
 *   lose_held       the same if the lost workers held closures without an answer
 *
 * The counts are exact, or the case ends with an error: in each round with losses every
 * closure is settled once (its callback counts) and done by a worker at least once; and
 * at most once if workers answer before they are lost, or not at all.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/raw.h"
#include "bench/simulated.h"
#include "common/sync.h"
#include "coxswain/coxswain.h"

enum {
    PER_WORKER = 100, /* closures in a batch */
    BATCH_MAX = 262144,
    LOST_PER_WORKER = 20, /* closures in a round with losses */
    LOSE_ROUNDS = 3,
    MEMORY_GOAL = 64 * 1024,
};

struct call {
    struct scale *scale;
    struct cox_future *future;
    uint32_t n_settled; /* calls of its callback; guarded by scale->lock */
};

struct scale {
    struct bench *bench;
    struct simulated simulated;
    struct raw raw;
    struct cox_coordinator *c;
    struct cox_function *nothing;
    uint32_t n_workers;
    size_t batch;
    struct call *calls; /* an array of `batch` calls */

    struct coxi_mutex lock; /* guards the counts of callbacks; leaf */
    pthread_cond_t called;
    size_t n_called;
};

/* ---- setting up */

/* Bytes of this process in memory, without memory that closures have freed. */
static double resident(void)
{
    (void)malloc_trim(0);
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        bench_die("cannot read /proc/self/statm");
    }
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void report(struct scale *scale, const char *name, const char *unit,
                   double value, double baseline, const char *baseline_name)
{
    struct bench_measurement m = {.name = name,
                                  .params = scale->simulated.params,
                                  .unit = unit,
                                  .baseline_name = baseline_name,
                                  .value = {{.value = value}},
                                  .baseline = {baseline},
                                  .n_rounds = 1};
    bench_report(scale->bench, "scale", &m);
}

static void make_calls(struct scale *scale)
{
    scale->batch = (size_t)PER_WORKER * scale->n_workers;
    scale->batch = scale->batch < BATCH_MAX ? scale->batch : BATCH_MAX;
    scale->calls = malloc(scale->batch * sizeof(*scale->calls));
    if (scale->calls == NULL) {
        bench_die("out of memory for futures");
    }
    /* Touches the memory, so that it does not count as the client's. */
    memset(scale->calls, 1, scale->batch * sizeof(*scale->calls));
}

/* Opens the client and waits until every worker is ready; returns the seconds that
 * cox_open took. */
static double open_client(struct scale *scale, uint32_t prefetch)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = prefetch;
    options.speculate = -1; /* closures that workers hold must be lost with them */
    return simulated_open(&scale->simulated, &options, &scale->c, &scale->nothing);
}

/* ---- throughput */

static void schedule(struct scale *scale, size_t n, bool futures)
{
    for (size_t i = 0; i < n; i++) {
        bench_check(cox_schedule(scale->c, scale->nothing, NULL,
                                 futures ? &scale->calls[i].future : NULL),
                    "schedule");
    }
}

/* Runs batches of closures for about `seconds`; closures a second. */
static struct bench_sample closures(struct scale *scale, bool futures, double seconds)
{
    size_t n = 0;
    double start = bench_now();
    do {
        schedule(scale, scale->batch, futures);
        bench_check(cox_join(scale->c, -1), "join");
        for (size_t i = 0; futures && i < scale->batch; i++) {
            bench_check(cox_future_wait(scale->calls[i].future, 0), "future");
            cox_future_free(scale->calls[i].future);
        }
        n += scale->batch;
    } while (bench_now() - start < seconds);
    return (struct bench_sample){.value = (double)n / (bench_now() - start)};
}

/* Measures closures a second, against raw requests. */
static void throughput(struct scale *scale, const char *name, bool futures)
{
    double seconds = scale->bench->seconds / BENCH_ROUNDS / 2;
    struct bench_measurement m = {.name = name,
                                  .params = scale->simulated.params,
                                  .unit = "1/s",
                                  .baseline_name =
                                      "raw 64-byte requests, 64 outstanding"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_requests(&scale->raw, 64, 64, seconds);
        m.value[m.n_rounds] = closures(scale, futures, seconds);
    }
    bench_report(scale->bench, "scale", &m);
}

/* ---- losses */

static void on_settled(void *arg, struct cox_future *future)
{
    struct call *call = arg;
    struct scale *scale = call->scale;
    bench_check(cox_future_wait(future, 0), "a closure");
    coxi_lock(&scale->lock);
    call->n_settled++;
    scale->n_called++;
    (void)pthread_cond_signal(&scale->called);
    coxi_unlock(&scale->lock);
}

static uint64_t put_back(struct scale *scale)
{
    struct cox_stats stats = COX_STATS_INIT;
    bench_check(cox_stats(scale->c, &stats), "stats");
    return stats.put_back;
}

/* Checks that each of n closures was settled once, and done once except for at most
 * `repeated_max` repetitions. */
static void check_exact(struct scale *scale, size_t n, uint64_t repeated_max)
{
    struct cox_error error = COX_ERROR_INIT;
    unsigned long long missing;
    unsigned long long repeated;
    char line[128];
    coxi_lock(&scale->lock);
    while (scale->n_called < n) {
        coxi_wait_for_end(&scale->called, &scale->lock);
    }
    for (size_t i = 0; i < n; i++) {
        if (scale->calls[i].n_settled != 1) {
            bench_die("closure %zu of %zu was settled %u times", i, n,
                      scale->calls[i].n_settled);
        }
    }
    coxi_unlock(&scale->lock);
    bench_check(cox_future_error(scale->calls[0].future, &error), "an id");
    bench_child_ask(&scale->simulated.crowd, line, "ids %llu %zu",
                    (unsigned long long)error.closure, n);
    if (sscanf(line, "%llu %llu", &missing, &repeated) != 2 || missing != 0 ||
        repeated > repeated_max) {
        bench_die("of %zu closures, never done and repeatedly: %s (put back: %llu)", n,
                  line, (unsigned long long)repeated_max);
    }
}

/* Loses half of the workers; returns the seconds until every closure is settled. */
static double lose(struct scale *scale, bool held)
{
    size_t n = (size_t)LOST_PER_WORKER * scale->n_workers;
    uint32_t half = scale->n_workers / 2;
    char line[128];
    n = n < scale->batch ? n : scale->batch;
    bench_child_ask(&scale->simulated.crowd, line, "ready %u", scale->n_workers);
    bench_child_ask(&scale->simulated.crowd, line, "hold %u", held ? half : 0);
    uint64_t put_back_before = put_back(scale);
    scale->n_called = 0;
    for (size_t i = 0; i < n; i++) {
        struct call *call = &scale->calls[i];
        call->scale = scale;
        call->n_settled = 0;
        bench_check(cox_schedule(scale->c, scale->nothing, NULL, &call->future),
                    "schedule");
        bench_check(cox_future_then(call->future, on_settled, call), "callback");
    }
    if (held) {
        bench_child_ask(&scale->simulated.crowd, line, "await %zu", n);
    }
    double start = bench_now();
    bench_child_ask(&scale->simulated.crowd, line, "lose %u", half);
    bench_check(cox_join(scale->c, -1), "join");
    double seconds = bench_now() - start;
    check_exact(scale, n, held ? 0 : put_back(scale) - put_back_before);
    for (size_t i = 0; i < n; i++) {
        cox_future_free(scale->calls[i].future);
    }
    return seconds;
}

static void losses(struct scale *scale)
{
    for (int held = 0; held < 2; held++) {
        struct bench_measurement m = {.name = held ? "lose_held" : "lose_busy",
                                      .params = scale->simulated.params,
                                      .unit = "s",
                                      .baseline_name = "goal"};
        for (; m.n_rounds < LOSE_ROUNDS; m.n_rounds++) {
            m.baseline[m.n_rounds] = 1;
            m.value[m.n_rounds].value = lose(scale, held != 0);
        }
        bench_report(scale->bench, "scale", &m);
    }
}

/* Reports the bytes for each worker, above `before`. */
static void report_memory(struct scale *scale, const char *name, double before)
{
    report(scale, name, "B", (resident() - before) / scale->n_workers, MEMORY_GOAL,
           "goal");
}

void bench_scale(struct bench *bench)
{
    struct scale scale = {
        .bench = bench, .n_workers = bench->workers, .lock = COXI_MUTEX_INIT};
    coxi_cond_init(&scale.called);
    raw_open(bench, true, &scale.raw);
    simulated_start(bench, scale.n_workers, bench->ps, &scale.simulated);
    make_calls(&scale);
    double before = resident();
    report(&scale, "open", "s", open_client(&scale, 0), 0, NULL);
    report_memory(&scale, "memory", before);
    schedule(&scale, scale.batch, false); /* warms up */
    bench_check(cox_join(scale.c, -1), "join");
    throughput(&scale, "empty_plain", false);
    throughput(&scale, "empty_futures", true);
    report_memory(&scale, "memory_used", before);
    losses(&scale);
    simulated_close(scale.c);
    (void)open_client(&scale, 1);
    throughput(&scale, "empty_prefetch1", false);
    simulated_close(scale.c);
    simulated_stop(&scale.simulated);
    free(scale.calls);
    raw_close(&scale.raw);
    (void)pthread_cond_destroy(&scale.called);
}
