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
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/crowd.h"
#include "bench/raw.h"
#include "common/buffer.h"
#include "common/sync.h"
#include "coxswain/coxswain.h"

enum {
    PER_WORKER = 100, /* closures in a batch */
    BATCH_MAX = 262144,
    LOST_PER_WORKER = 20, /* closures in a round with losses */
    FILES_MORE = 200,     /* besides one for each worker */
    LOSE_ROUNDS = 3,
    OPEN_MS = 120000,
    CLOSE_MS = 5000,
    MEMORY_GOAL = 64 * 1024,
};

struct call {
    struct scale *scale;
    struct cox_future *future;
    uint32_t n_settled; /* calls of its callback; guarded by scale->lock */
};

struct scale {
    struct bench *bench;
    struct bench_child crowd;
    struct bench_child ps[BENCH_PS_MAX];
    uint32_t n_ps;
    struct raw raw;
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_function *nothing;
    uint32_t n_workers;
    size_t batch;
    struct call *calls; /* an array of `batch` calls */
    char params[64];

    struct coxi_mutex lock; /* guards the counts of callbacks; leaf */
    pthread_cond_t called;
    size_t n_called;
};

/* ---- setting up */

static void raise_files(uint32_t n_workers)
{
    struct rlimit files;
    rlim_t needed = n_workers + FILES_MORE;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        bench_die("getrlimit: %s", strerror(errno));
    }
    if (files.rlim_max < needed) {
        bench_die("--workers %u needs %llu open files, and the limit is %llu: raise it "
                  "(ulimit -Hn), or take fewer workers",
                  n_workers, (unsigned long long)needed,
                  (unsigned long long)files.rlim_max);
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

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

/* Makes the cluster's JSON: the ps, and the crowd's listeners in turn. */
static void describe(struct scale *scale, struct coxi_buffer *json)
{
    char url[128] = "";
    int r = coxi_buffer_printf(json, "{\"ps\":[");
    for (uint32_t i = 0; r == 0 && i < scale->n_ps; i++) {
        r = coxi_buffer_printf(json, "%s\"%s\"", i > 0 ? "," : "", scale->ps[i].line);
    }
    if (r == 0) {
        r = coxi_buffer_printf(json, "],\"worker\":[");
    }
    for (uint32_t i = 0; r == 0 && i < scale->n_workers; i++) {
        if (i % CROWD_PER_LISTENER == 0) {
            bench_child_ask(&scale->crowd, url, "url %u", i / CROWD_PER_LISTENER);
        }
        /* The workers of a listener are told apart by their loopback addresses. */
        uint32_t place = i % CROWD_PER_LISTENER;
        r = coxi_buffer_printf(json, "%s\"tcp://127.0.%u.%u:%s\"", i > 0 ? "," : "",
                               place / 250, 1 + place % 250, strrchr(url, ':') + 1);
    }
    if (r == 0) {
        r = coxi_buffer_append_raw(json, "]}", 3);
    }
    bench_check(r, "cluster");
}

static void report(struct scale *scale, const char *name, const char *unit,
                   double value, double baseline, const char *baseline_name)
{
    struct bench_measurement m = {.name = name,
                                  .params = scale->params,
                                  .unit = unit,
                                  .baseline_name = baseline_name,
                                  .value = {{.value = value}},
                                  .baseline = {baseline},
                                  .n_rounds = 1};
    bench_report(scale->bench, "scale", &m);
}

static void start_others(struct scale *scale)
{
    struct coxi_buffer json = {0};
    char what[32];
    (void)snprintf(what, sizeof(what), "crowd=%u", scale->n_workers);
    bench_child_start(scale->bench, what, &scale->crowd);
    for (uint32_t i = 0; i < scale->n_ps; i++) {
        (void)snprintf(what, sizeof(what), "ps=%u", i);
        bench_child_start(scale->bench, what, &scale->ps[i]);
    }
    describe(scale, &json);
    bench_check(cox_cluster_parse((const char *)json.data, &scale->cluster), "cluster");
    coxi_buffer_fini(&json);
    scale->batch = (size_t)PER_WORKER * scale->n_workers;
    scale->batch = scale->batch < BATCH_MAX ? scale->batch : BATCH_MAX;
    scale->calls = malloc(scale->batch * sizeof(*scale->calls));
    if (scale->calls == NULL) {
        bench_die("out of memory for futures");
    }
    /* Touches the memory, so that it does not count as the client's. */
    memset(scale->calls, 1, scale->batch * sizeof(*scale->calls));
}

static void stop_others(struct scale *scale)
{
    bench_child_stop(&scale->crowd);
    for (uint32_t i = 0; i < scale->n_ps; i++) {
        bench_child_stop(&scale->ps[i]);
    }
    cox_cluster_free(scale->cluster);
    free(scale->calls);
}

/* Opens the client and waits until every worker is ready; returns the seconds that
 * cox_open took. */
static double open_client(struct scale *scale, uint32_t prefetch)
{
    struct bench *bench = scale->bench;
    struct cox_module *module;
    struct cox_options options = COX_OPTIONS_INIT;
    char path[sizeof(bench->self) + 32];
    options.min_workers = scale->n_workers;
    options.open_timeout_ms = OPEN_MS;
    options.prefetch = prefetch;
    options.speculate = -1; /* closures that workers hold must be lost with them */
    double start = bench_now();
    bench_check(cox_open(scale->cluster, &options, &scale->c), "open");
    double seconds = bench_now() - start;
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "bench_steps.so");
    bench_check(cox_module_load(scale->c, path, &module), "module");
    bench_check(cox_function_get(module, "nothing", &scale->nothing), "function");
    return seconds;
}

static void close_client(struct scale *scale)
{
    bench_check(cox_close(scale->c, CLOSE_MS), "close");
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
                                  .params = scale->params,
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
    bench_child_ask(&scale->crowd, line, "ids %llu %zu",
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
    bench_child_ask(&scale->crowd, line, "ready %u", scale->n_workers);
    bench_child_ask(&scale->crowd, line, "hold %u", held ? half : 0);
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
        bench_child_ask(&scale->crowd, line, "await %zu", n);
    }
    double start = bench_now();
    bench_child_ask(&scale->crowd, line, "lose %u", half);
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
                                      .params = scale->params,
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
    struct scale scale = {.bench = bench,
                          .n_workers = bench->workers,
                          .n_ps = bench->ps,
                          .lock = COXI_MUTEX_INIT};
    (void)snprintf(scale.params, sizeof(scale.params),
                   "{\"workers\":%u,\"ps\":%u,\"slots\":1}", scale.n_workers,
                   scale.n_ps);
    coxi_cond_init(&scale.called);
    raise_files(scale.n_workers);
    raw_open(bench, true, &scale.raw);
    start_others(&scale);
    double before = resident();
    report(&scale, "open", "s", open_client(&scale, 0), 0, NULL);
    report_memory(&scale, "memory", before);
    schedule(&scale, scale.batch, false); /* warms up */
    bench_check(cox_join(scale.c, -1), "join");
    throughput(&scale, "empty_plain", false);
    throughput(&scale, "empty_futures", true);
    report_memory(&scale, "memory_used", before);
    losses(&scale);
    close_client(&scale);
    (void)open_client(&scale, 1);
    throughput(&scale, "empty_prefetch1", false);
    close_client(&scale);
    stop_others(&scale);
    raw_close(&scale.raw);
    (void)pthread_cond_destroy(&scale.called);
}
