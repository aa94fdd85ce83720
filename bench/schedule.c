/*
 * Case `schedule`: closures from cox_schedule to cox_join, on a local cluster of 2
 * workers with one slot each and 2 ps.
 *
 *   empty_futures  steps that do nothing, a future for each
 *   empty_plain    without futures
 *   committed      each step pushes one row, exactly once
 *   logged         the same with a checkpoint directory, that is with the replay log
 *                  and the checkpoints that it asks for; against the same without
 *   with_values    an argument of --args bytes, returned as a result that a future
 *                  holds
 *   one_at_a_time  scheduled and waited for, one after the other
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/crew.h"
#include "bench/raw.h"
#include "coxswain/coxswain.h"

enum { BATCH = 20000, SAMPLES_MAX = 200000 };

struct stage {
    struct crew crew;
    struct cox_function *nothing;
    struct cox_function *push_row;
    struct cox_function *echo;
    struct cox_future **futures; /* BATCH entries */
};

static void stage_open(struct bench *bench, const struct cox_options *options,
                       struct stage *ret)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    crew_open(bench, 2, 2, options, &ret->crew);
    spec.name = "rows";
    spec.dim = 8;
    spec.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.01F};
    bench_check(cox_table_create(ret->crew.c, &spec, &table), "table");
    ret->nothing = crew_function(&ret->crew, "nothing");
    ret->push_row = crew_function(&ret->crew, "push_row");
    ret->echo = crew_function(&ret->crew, "echo");
    ret->futures = calloc(BATCH, sizeof(*ret->futures));
    if (ret->futures == NULL) {
        bench_die("out of memory");
    }
}

static void stage_close(struct stage *stage)
{
    free(stage->futures);
    crew_close(&stage->crew);
}

/* Runs batches of closures for about `seconds`; closures a second. */
static struct bench_sample closures(struct stage *stage, struct cox_function *function,
                                    const struct cox_call *call, bool futures,
                                    double seconds)
{
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < BATCH; i++) {
            bench_check(cox_schedule(stage->crew.c, function, call,
                                     futures ? &stage->futures[i] : NULL),
                        "schedule");
        }
        bench_check(cox_join(stage->crew.c, -1), "join");
        for (size_t i = 0; futures && i < BATCH; i++) {
            bench_check(cox_future_wait(stage->futures[i], 0), "future");
            cox_future_free(stage->futures[i]);
        }
        n += BATCH;
    } while (bench_now() - start < seconds);
    return (struct bench_sample){.value = (double)n / (bench_now() - start)};
}

static struct bench_sample one_at_a_time(struct stage *stage, double seconds)
{
    static double samples[SAMPLES_MAX];
    size_t n = 0;
    double start = bench_now();
    double now = start;
    while (now - start < seconds && n < SAMPLES_MAX) {
        struct cox_future *future;
        double before = now;
        bench_check(cox_schedule(stage->crew.c, stage->nothing, NULL, &future),
                    "schedule");
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

static void check_value(const struct stage *stage, const struct cox_value *expected)
{
    struct cox_future *future;
    struct cox_value found;
    struct cox_call call = COX_CALL_INIT;
    call.args = expected;
    call.n_args = 1;
    bench_check(cox_schedule(stage->crew.c, stage->echo, &call, &future), "schedule");
    bench_check(cox_future_wait(future, -1), "future");
    bench_check(cox_future_result(future, expected->name, &found), "result");
    if (found.shape[0] != expected->shape[0] ||
        memcmp(found.data, expected->data, found.shape[0]) != 0) {
        bench_die("a step returned something else than its argument");
    }
    cox_future_free(future);
}

static void with_values(struct bench *bench, struct stage *stage, struct raw *raw,
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
    check_value(stage, &value);
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
        m.value[m.n_rounds] = closures(stage, stage->echo, &call, true, seconds);
    }
    bench_report(bench, "schedule", &m);
    free(data);
}

static void measure_one(struct bench *bench, struct stage *stage, struct raw *raw,
                        double seconds)
{
    struct bench_measurement m = {.name = "one_at_a_time",
                                  .params = "{\"workers\":2,\"ps\":2,\"slots\":1}",
                                  .unit = "us",
                                  .baseline_name = "raw TCP round trip"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_round_trip(raw, seconds);
        m.value[m.n_rounds] = one_at_a_time(stage, seconds);
    }
    bench_report(bench, "schedule", &m);
}

static void logged(struct bench *bench, struct stage *plain, double seconds)
{
    char dir[128];
    struct stage stage = {0};
    struct cox_options options = COX_OPTIONS_INIT;
    struct bench_measurement m = {.name = "logged",
                                  .params = "{\"workers\":2,\"ps\":2,\"slots\":1}",
                                  .unit = "1/s",
                                  .baseline_name = "committed"};
    (void)snprintf(dir, sizeof(dir), "%s/schedule", bench->dir);
    options.checkpoint_dir = dir;
    options.checkpoint_keep = 1;
    stage_open(bench, &options, &stage);
    (void)closures(&stage, stage.push_row, NULL, false, seconds); /* warms up */
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] =
            closures(plain, plain->push_row, NULL, false, seconds).value;
        m.value[m.n_rounds] = closures(&stage, stage.push_row, NULL, false, seconds);
    }
    bench_report(bench, "schedule", &m);
    stage_close(&stage);
}

void bench_schedule(struct bench *bench)
{
    struct stage stage = {0};
    struct raw raw;
    const char *params = "{\"workers\":2,\"ps\":2,\"slots\":1}";
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    stage_open(bench, NULL, &stage);
    raw_open(bench, true, &raw);
    const struct {
        const char *name;
        struct cox_function *function;
        bool futures;
    } cases[] = {
        {"empty_futures", stage.nothing, true},
        {"empty_plain", stage.nothing, false},
        {"committed", stage.push_row, false},
    };
    (void)closures(&stage, stage.nothing, NULL, false, seconds); /* warms up */
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (!bench_wants(bench, cases[i].name)) {
            continue;
        }
        struct bench_measurement m = {.name = cases[i].name,
                                      .params = params,
                                      .unit = "1/s",
                                      .baseline_name =
                                          "raw 64-byte requests, 64 outstanding"};
        for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
            m.baseline[m.n_rounds] = raw_requests(&raw, 64, 64, seconds);
            m.value[m.n_rounds] =
                closures(&stage, cases[i].function, NULL, cases[i].futures, seconds);
        }
        bench_report(bench, "schedule", &m);
    }
    if (bench_wants(bench, "logged")) {
        logged(bench, &stage, seconds);
    }
    if (bench_wants(bench, "with_values")) {
        with_values(bench, &stage, &raw, seconds);
    }
    if (bench_wants(bench, "one_at_a_time")) {
        measure_one(bench, &stage, &raw, seconds);
    }
    raw_close(&raw);
    stage_close(&stage);
}
