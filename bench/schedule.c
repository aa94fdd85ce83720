/*
 * Case `schedule`: closures from cox_schedule to cox_join, on a local cluster of 2
 * workers with one slot each and 2 ps.
 *
 *   empty_futures  steps that do nothing, a future for each
 *   empty_plain    without futures
 *   committed      each step pushes one row, exactly once
 *   with_values    an argument of --args bytes, returned as a result that a future holds
 *   one_at_a_time  scheduled and waited for, one after the other
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/raw.h"
#include "coxswain/coxswain.h"

enum { BATCH = 20000, SAMPLES_MAX = 200000 };

struct crew {
    struct cox_coordinator *c;
    struct cox_function *nothing;
    struct cox_function *push_row;
    struct cox_function *echo;
    struct cox_future **futures; /* BATCH of them */
};

static void crew_open(struct bench *bench, struct crew *crew)
{
    struct cox_cluster *cluster;
    struct cox_module *module;
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    char path[sizeof(bench->self) + 32];
    bench_check(cox_cluster_local(2, 2, &cluster), "cluster");
    bench_check(cox_open(cluster, NULL, &crew->c), "open");
    cox_cluster_free(cluster);
    spec.name = "rows";
    spec.dim = 8;
    spec.optimizer = (struct cox_optimizer){COX_SGD, 0.01F, 0, 0};
    bench_check(cox_table_create(crew->c, &spec, &table), "table");
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "bench_steps.so");
    bench_check(cox_module_load(crew->c, path, &module), "module");
    bench_check(cox_function_get(module, "nothing", &crew->nothing), "function");
    bench_check(cox_function_get(module, "push_row", &crew->push_row), "function");
    bench_check(cox_function_get(module, "echo", &crew->echo), "function");
    crew->futures = calloc(BATCH, sizeof(*crew->futures));
}

static void crew_close(struct crew *crew)
{
    free(crew->futures);
    bench_check(cox_close(crew->c, 5000), "close");
}

/* Batches of closures for about `seconds`; closures a second. */
static struct bench_sample closures(struct crew *crew, struct cox_function *function,
                                    const struct cox_call *call, bool futures,
                                    double seconds)
{
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < BATCH; i++) {
            bench_check(cox_schedule(crew->c, function, call,
                                     futures ? &crew->futures[i] : NULL),
                        "schedule");
        }
        bench_check(cox_join(crew->c, -1), "join");
        for (size_t i = 0; futures && i < BATCH; i++) {
            bench_check(cox_future_wait(crew->futures[i], 0), "future");
            cox_future_free(crew->futures[i]);
        }
        n += BATCH;
    } while (bench_now() - start < seconds);
    return (struct bench_sample){.value = (double)n / (bench_now() - start)};
}

static struct bench_sample one_at_a_time(struct crew *crew, double seconds)
{
    static double samples[SAMPLES_MAX];
    size_t n = 0;
    double start = bench_now();
    double now = start;
    while (now - start < seconds && n < SAMPLES_MAX) {
        struct cox_future *future;
        double before = now;
        bench_check(cox_schedule(crew->c, crew->nothing, NULL, &future), "schedule");
        bench_check(cox_future_wait(future, -1), "future");
        cox_future_free(future);
        now = bench_now();
        samples[n++] = (now - before) * 1e6;
    }
    struct bench_sample sample = {
        .p50_us = bench_quantile(samples, n, 0.5),
        .p99_us = bench_quantile(samples, n, 0.99),
    };
    sample.value = sample.p50_us;
    return sample;
}

static void check_value(const struct crew *crew, const struct cox_value *expected)
{
    struct cox_future *future;
    struct cox_value found;
    struct cox_call call = COX_CALL_INIT;
    call.args = expected;
    call.n_args = 1;
    bench_check(cox_schedule(crew->c, crew->echo, &call, &future), "schedule");
    bench_check(cox_future_wait(future, -1), "future");
    bench_check(cox_future_result(future, expected->name, &found), "result");
    if (found.shape[0] != expected->shape[0] ||
        memcmp(found.data, expected->data, found.shape[0]) != 0) {
        bench_die("a step returned something else than its argument");
    }
    cox_future_free(future);
}

static void with_values(struct bench *bench, struct crew *crew, struct raw *raw,
                        double seconds)
{
    char params[128];
    char baseline[64];
    size_t bytes = bench->args_bytes < 64              ? 64
                   : bench->args_bytes > RAW_SMALL_MAX ? RAW_SMALL_MAX
                                                       : bench->args_bytes;
    uint8_t *data = malloc(bench->args_bytes);
    if (data == NULL) {
        bench_die("out of memory");
    }
    for (size_t i = 0; i < bench->args_bytes; i++) {
        data[i] = (uint8_t)(i * 7);
    }
    const struct cox_value value = COX_VECTOR("v", COX_U8, bench->args_bytes, data);
    struct cox_call call = COX_CALL_INIT;
    call.args = &value;
    call.n_args = 1;
    check_value(crew, &value);
    (void)snprintf(params, sizeof(params),
                   "{\"workers\":2,\"ps\":2,\"slots\":1,\"args\":%zu}",
                   bench->args_bytes);
    (void)snprintf(baseline, sizeof(baseline), "raw %zu-byte requests, 64 outstanding",
                   bytes);
    struct bench_measurement m = {.name = "with_values",
                                  .params = params,
                                  .unit = "1/s",
                                  .baseline_name = baseline};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_requests(raw, bytes, 64, seconds);
        m.value[m.n_rounds] = closures(crew, crew->echo, &call, true, seconds);
    }
    bench_report(bench, "schedule", &m);
    free(data);
}

void bench_schedule(struct bench *bench)
{
    struct crew crew = {0};
    struct raw raw;
    const char *params = "{\"workers\":2,\"ps\":2,\"slots\":1}";
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    crew_open(bench, &crew);
    raw_open(bench, true, &raw);
    const struct {
        const char *name;
        struct cox_function *function;
        bool futures;
    } cases[] = {
        {"empty_futures", crew.nothing, true},
        {"empty_plain", crew.nothing, false},
        {"committed", crew.push_row, false},
    };
    (void)closures(&crew, crew.nothing, NULL, false, seconds); /* warm up */
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct bench_measurement m = {.name = cases[i].name,
                                      .params = params,
                                      .unit = "1/s",
                                      .baseline_name =
                                          "raw 64-byte requests, 64 outstanding"};
        for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
            m.baseline[m.n_rounds] = raw_requests(&raw, 64, 64, seconds);
            m.value[m.n_rounds] =
                closures(&crew, cases[i].function, NULL, cases[i].futures, seconds);
        }
        bench_report(bench, "schedule", &m);
    }
    with_values(bench, &crew, &raw, seconds);
    struct bench_measurement m = {.name = "one_at_a_time",
                                  .params = params,
                                  .unit = "us",
                                  .baseline_name = "raw TCP round trip"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_round_trip(&raw, seconds);
        m.value[m.n_rounds] = one_at_a_time(&crew, seconds);
    }
    bench_report(bench, "schedule", &m);
    raw_close(&raw);
    crew_close(&crew);
}
