/*
 * Case `visible`: what it costs that a run can be watched. Closures from cox_schedule to
 * cox_join on a local cluster of 2 workers with one slot each and 2 ps; each step pushes one
 * row.
 *
 *   history   with the history on disk and samples each second; against a client that has
 *             neither
 *   scalars   the same, and each step logs a scalar, which is written for TensorBoard, too
 *   strangers with pages over HTTP and a hostile crowd at them (http_strangers.c); against the
 *             same client without the crowd
 */
#include <stdio.h>
#include <string.h>

#include "bench/crew.h"
#include "coxswain/coxswain.h"

enum { BATCH = 20000 };

static void stage_open(struct bench *bench, const struct cox_options *options,
                       struct crew *ret)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    crew_open(bench, 2, 2, options, ret);
    spec.name = "rows";
    spec.dim = 8;
    spec.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.01F};
    bench_check(cox_table_create(ret->c, &spec, &table), "table");
}

/* Runs batches of closures for about `seconds`; closures a second. */
static double closures(struct crew *crew, const char *step, double seconds)
{
    struct cox_function *function = crew_function(crew, step);
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < BATCH; i++) {
            bench_check(cox_schedule(crew->c, function, NULL, NULL), "schedule");
        }
        bench_check(cox_join(crew->c, -1), "join");
        n += BATCH;
    } while (bench_now() - start < seconds);
    return (double)n / (bench_now() - start);
}

static void measure(struct bench *bench, const char *name, const char *step,
                    struct crew *plain, struct crew *watched)
{
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    struct bench_measurement m = {.name = name,
                                  .params = "{\"workers\":2,\"ps\":2,\"slots\":1}",
                                  .unit = "1/s",
                                  .baseline_name = "without history"};
    if (!bench_wants(bench, name)) {
        return;
    }
    (void)closures(watched, step, seconds); /* warms up */
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = closures(plain, "push_row", seconds);
        m.value[m.n_rounds].value = closures(watched, step, seconds);
    }
    bench_report(bench, "visible", &m);
}

/* The client is left alone and visited in turn. */
static void measure_strangers(struct bench *bench, struct crew *served)
{
    char what[64];
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    const char *port = strrchr(cox_http_address(served->c), ':') + 1;
    struct bench_measurement m = {
        .name = "strangers",
        .params = "{\"workers\":2,\"ps\":2,\"slots\":1,\"slow\":1000}",
        .unit = "1/s",
        .baseline_name = "without them"};
    (void)snprintf(what, sizeof(what), "http-strangers=%s", port);
    (void)closures(served, "push_row", seconds); /* warms up */
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        struct bench_child crowd;
        m.baseline[m.n_rounds] = closures(served, "push_row", seconds);
        bench_child_start(bench, what, &crowd);
        m.value[m.n_rounds].value = closures(served, "push_row", seconds);
        bench_child_stop(&crowd);
    }
    bench_report(bench, "visible", &m);
}

void bench_visible(struct bench *bench)
{
    struct crew plain;
    struct crew watched;
    struct crew logged;
    struct crew served;
    char dir[128];
    char curves[128];
    struct cox_options options = COX_OPTIONS_INIT;
    (void)snprintf(dir, sizeof(dir), "%s/watched", bench->dir);
    (void)snprintf(curves, sizeof(curves), "%s/curves", bench->dir);
    options.history = -1;
    stage_open(bench, &options, &plain);
    options.history = 0;
    options.log_dir = dir;
    stage_open(bench, &options, &watched);
    (void)snprintf(dir, sizeof(dir), "%s/logged", bench->dir);
    options.tensorboard_dir = curves;
    stage_open(bench, &options, &logged);
    (void)closures(&plain, "push_row", bench->seconds / BENCH_ROUNDS); /* warms up */
    measure(bench, "history", "push_row", &plain, &watched);
    measure(bench, "scalars", "log_row", &plain, &logged);
    crew_close(&logged);
    crew_close(&watched);
    crew_close(&plain);
    if (bench_wants(bench, "strangers")) {
        options = (struct cox_options)COX_OPTIONS_INIT;
        options.http = "127.0.0.1:0";
        stage_open(bench, &options, &served);
        measure_strangers(bench, &served);
        crew_close(&served);
    }
}
