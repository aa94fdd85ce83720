/*
 * Case `tail`: the delay of small pulls at a steady pace while long pushes to another
 * variable keep both processes busy, against raw sockets with the same load. Each side
 * has a core of its own.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "bench/paced.h"
#include "bench/pair.h"
#include "bench/raw.h"
#include "common/sync.h"

enum {
    PUSH_BYTES = 16 << 20,
    PUSHES = 1, /* at a time */
    COLUMNS = 4,
};

/* ---- raw */

struct raw_load {
    struct raw raw;
    atomic_bool going;
};

static void *push_raw(void *arg)
{
    struct raw_load *load = arg;
    while (atomic_load(&load->going)) {
        raw_push(&load->raw, PUSH_BYTES);
    }
    return NULL;
}

static double measure_raw(struct raw *raw, struct raw_load *load, double seconds)
{
    pthread_t pusher;
    atomic_store(&load->going, true);
    bench_check(coxi_thread_start(&pusher, "push", push_raw, load), "thread");
    paced_begin(seconds);
    paced_ask_raw(raw);
    atomic_store(&load->going, false);
    (void)pthread_join(pusher, NULL);
    return paced_end().p99_us;
}

/* ---- a ps */

static void ask_pull(void *arg)
{
    pair_run_post(arg);
}

static struct bench_sample measure_pair(struct pair_run *pull, struct pair_run *push,
                                        double seconds)
{
    pair_run_start(push);
    paced_begin(seconds);
    paced_ask(ask_pull, pull);
    pair_run_wait(pull);
    (void)pair_run_stop(push);
    return paced_end();
}

static void measure(struct bench *bench, enum pair_transport transport)
{
    static const uint64_t keys[] = {1};
    char params[48];
    struct pair pair;
    struct raw raw;
    struct raw_load raw_load;
    struct pair_run *pull;
    struct pair_run *push;
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    (void)snprintf(params, sizeof(params), "{\"transport\":\"%s\"}",
                   pair_transports[transport]);
    pair_open(bench, transport, &pair);
    raw_open(bench, true, &raw);
    raw_join(&raw, &raw_load.raw);
    pair_run_open(
        &pair,
        &(struct pair_load){.variable = pair_table(&pair, COLUMNS, COXI_OPTIMIZER_SGD),
                            .count = 1,
                            .keys = keys,
                            .n_sets = 1,
                            .row_bytes = COLUMNS * sizeof(float),
                            .outstanding = PAIR_OUTSTANDING_MAX,
                            .answered = paced_answered},
        &pull);
    pair_run_open(
        &pair,
        &(struct pair_load){.push = true,
                            .variable = pair_dense(&pair, PUSH_BYTES / sizeof(float)),
                            .count = PUSH_BYTES / sizeof(float),
                            .row_bytes = sizeof(float),
                            .outstanding = PUSHES},
        &push);
    struct bench_measurement m = {.name = "p99",
                                  .params = params,
                                  .unit = "us",
                                  .baseline_name = "p99 of raw tcp, the same load"};
    bench_pin(&raw.child, 1);
    bench_pin(&pair.child, 1);
    bench_pin(NULL, 0);
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = measure_raw(&raw, &raw_load, seconds);
        m.value[m.n_rounds] = measure_pair(pull, push, seconds);
    }
    bench_pin(NULL, BENCH_ANY_CORE);
    bench_report(bench, "tail", &m);
    pair_run_close(pull);
    pair_run_close(push);
    raw_close(&raw_load.raw);
    raw_close(&raw);
    pair_close(&pair);
}

void bench_tail(struct bench *bench)
{
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        measure(bench, (enum pair_transport)t);
    }
}
