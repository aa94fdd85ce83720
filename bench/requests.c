/*
 * Cases `pull` and `push`: requests to a ps in a process of its own, over each
 * transport, against raw blocking sockets.
 *   small       one row of 4 floats of a table, 256 outstanding; each push is a commit
 *   small_one   one outstanding, both processes on one core
 *   dense_...   a dense variable of that size, OUTSTANDING at a time; pushes with SGD,
 *               against sockets that receive a message and then apply it
 */
#include <stdio.h>

#include "bench/pair.h"
#include "bench/raw.h"
#include "common/rand.h"

enum {
    SMALL_BYTES = 64, /* of a raw request, and of its answer */
    SMALL_ROWS = 4096,
    SMALL_COLUMNS = 4,
    OUTSTANDING = 4,              /* long requests under way, ... */
    OUTSTANDING_BYTES = 32 << 20, /* ... but no more bytes than that */
};

static const struct {
    const char *name;
    size_t bytes;
} sizes[] = {{"dense_64k", 64 << 10}, {"dense_1m", 1 << 20}, {"dense_16m", 16 << 20}};

struct side {
    struct bench *bench;
    struct pair pair;
    struct raw raw;
    const char *name; /* of the case */
    char params[32];
    bool push;
    double seconds;
};

static struct bench_sample in_gigabytes(struct bench_sample sample, size_t bytes)
{
    sample.value *= (double)bytes / 1e9;
    return sample;
}

static void measure_dense(struct side *side, const char *name, size_t bytes)
{
    struct pair_run *run;
    if (!bench_wants(side->bench, name)) {
        return;
    }
    struct pair_load load = {
        .push = side->push,
        .variable = pair_dense(&side->pair, bytes / sizeof(float)),
        .count = bytes / sizeof(float),
        .row_bytes = sizeof(float),
        .outstanding = bytes < OUTSTANDING_BYTES / OUTSTANDING
                           ? OUTSTANDING
                           : (int)(OUTSTANDING_BYTES / bytes),
    };
    struct bench_measurement m = {
        .name = name,
        .params = side->params,
        .unit = "GB/s",
        .baseline_name =
            side->push ? "raw tcp, received and applied" : "raw tcp, streamed",
    };
    pair_run_open(&side->pair, &load, &run);
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] =
            raw_bandwidth(&side->raw, bytes, side->push, side->seconds);
        m.value[m.n_rounds] = in_gigabytes(pair_run_for(run, side->seconds), bytes);
    }
    pair_run_close(run);
    bench_report(side->bench, side->name, &m);
}

/* A request for one key, over all rows in turn; `keys` must outlive it. */
static struct pair_load small_load(struct side *side, const uint64_t *keys)
{
    return (struct pair_load){
        .push = side->push,
        .variable = pair_table(&side->pair, SMALL_COLUMNS, COXI_OPTIMIZER_SGD),
        .count = 1,
        .keys = keys,
        .n_sets = SMALL_ROWS,
        .row_bytes = SMALL_COLUMNS * sizeof(float),
        .outstanding = PAIR_OUTSTANDING_MAX,
    };
}

/* Makes the rows. */
static void fill_small(struct side *side, struct pair_load load)
{
    struct pair_run *run;
    load.push = true;
    pair_run_open(&side->pair, &load, &run);
    pair_run_once(run);
    pair_run_close(run);
}

static void measure_many(struct side *side, struct pair_run *run)
{
    struct bench_measurement m = {.name = "small",
                                  .params = side->params,
                                  .unit = "1/s",
                                  .baseline_name = "raw tcp, a write a message"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] =
            raw_requests(&side->raw, SMALL_BYTES, PAIR_OUTSTANDING_MAX, side->seconds);
        m.value[m.n_rounds] = pair_run_for(run, side->seconds);
    }
    bench_report(side->bench, side->name, &m);
}

static void measure_one(struct side *side, struct pair_run *run)
{
    struct bench_measurement m = {.name = "small_one",
                                  .params = side->params,
                                  .unit = "us",
                                  .baseline_name = "raw tcp round trip"};
    bench_pin(&side->raw.child, 0);
    bench_pin(&side->pair.child, 0);
    bench_pin(NULL, 0);
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_round_trip(&side->raw, side->seconds);
        m.value[m.n_rounds] = pair_run_singly(run, side->seconds);
    }
    bench_pin(NULL, BENCH_ANY_CORE);
    bench_pin(&side->pair.child, BENCH_ANY_CORE);
    bench_pin(&side->raw.child, BENCH_ANY_CORE);
    bench_report(side->bench, side->name, &m);
}

static void measure_small(struct side *side)
{
    uint64_t keys[SMALL_ROWS];
    uint64_t random = 1;
    struct pair_run *run;
    for (size_t i = 0; i < SMALL_ROWS; i++) {
        keys[i] = coxi_rand(&random);
    }
    struct pair_load load = small_load(side, keys);
    fill_small(side, load);
    pair_run_open(&side->pair, &load, &run);
    if (bench_wants(side->bench, "small")) {
        measure_many(side, run);
    }
    if (bench_wants(side->bench, "small_one")) {
        measure_one(side, run);
    }
    pair_run_close(run);
}

static void measure(struct bench *bench, bool push)
{
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        struct side side = {.bench = bench,
                            .name = push ? "push" : "pull",
                            .push = push,
                            .seconds = bench->seconds / BENCH_ROUNDS / 2};
        (void)snprintf(side.params, sizeof(side.params), "{\"transport\":\"%s\"}",
                       pair_transports[t]);
        pair_open(bench, (enum pair_transport)t, &side.pair);
        raw_open(bench, true, &side.raw);
        measure_small(&side);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            measure_dense(&side, sizes[i].name, sizes[i].bytes);
        }
        raw_close(&side.raw);
        pair_close(&side.pair);
    }
}

void bench_pull(struct bench *bench)
{
    measure(bench, false);
}

void bench_push(struct bench *bench)
{
    measure(bench, true);
}
