/*
 * Case `sparse`: rows of a table of 16 floats, 4096 different keys a request,
 * OUTSTANDING requests at a time; pushes are gradients with Adagrad, each a commit.
 *   pull, push   rows a second, against the rate that is required; and CPU time of the
 *                ps for a row, against plain loops (plain.h) that look keys up, and
 *                that know the rows' places
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/keys.h"
#include "bench/pair.h"
#include "bench/plain.h"

enum {
    KEYS = 4096, /* of a request */
    SETS = 512,  /* of keys, used in turn */
    OUTSTANDING = 4,
};

/* The keys of SETS requests, and the numbers of their rows. */
struct sets {
    uint64_t *keys;
    uint32_t *numbers;
};

struct sparse {
    struct bench *bench;
    struct pair pair;
    uint32_t table;
    uint64_t rows;
    struct plain plain;
    struct sets sets;
    const char *params;
};

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        bench_die("no memory for %zu bytes", bytes);
    }
    return memory;
}

static void sets_open(struct sets *sets)
{
    sets->keys = allocate(sizeof(*sets->keys) * SETS * KEYS);
    sets->numbers = allocate(sizeof(*sets->numbers) * SETS * KEYS);
}

static void sets_close(struct sets *sets)
{
    free(sets->keys);
    free(sets->numbers);
}

static void draw(struct sets *sets, uint64_t rows, double exponent)
{
    struct bench_keys keys;
    bench_keys_init(&keys, rows, exponent, 1);
    for (size_t s = 0; s < SETS; s++) {
        bench_keys_draw(&keys, KEYS, sets->numbers + s * KEYS);
    }
    for (size_t i = 0; i < (size_t)SETS * KEYS; i++) {
        sets->keys[i] = bench_key(sets->numbers[i]);
    }
    bench_keys_fini(&keys);
}

static struct pair_load load_of(const struct sparse *sparse, bool push, size_t n_sets)
{
    return (struct pair_load){
        .push = push,
        .variable = sparse->table,
        .count = KEYS,
        .keys = sparse->sets.keys,
        .n_sets = n_sets,
        .row_bytes = PLAIN_DIM * sizeof(float),
        .outstanding = OUTSTANDING,
    };
}

/* Makes all rows of the ps's table, and a few more. */
static void fill(struct sparse *sparse)
{
    for (uint64_t next = 0; next < sparse->rows;) {
        struct pair_run *run;
        size_t n_sets = 0;
        for (; n_sets < SETS && next < sparse->rows; n_sets++) {
            for (size_t i = 0; i < KEYS; i++) {
                sparse->sets.keys[n_sets * KEYS + i] = bench_key(next++);
            }
        }
        struct pair_load load = load_of(sparse, true, n_sets);
        pair_run_open(&sparse->pair, &load, &run);
        pair_run_once(run);
        pair_run_close(run);
    }
}

/* Nanoseconds of CPU time that a plain loop takes for a row. */
static double plain_cost(const struct sparse *sparse, bool push, bool is_flat,
                         double seconds)
{
    static float values[KEYS * PLAIN_DIM];
    static const struct coxi_optimizer adagrad = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                                  .learning_rate = 0.01F,
                                                  .epsilon = 1e-7F,
                                                  .initial_accumulator = 0.1F};
    const struct sets *sets = &sparse->sets;
    double cpu = bench_cpu_self();
    double start = bench_now();
    size_t n = 0;
    for (size_t at = 0; bench_now() - start < seconds;
         at = (at + KEYS) % ((size_t)SETS * KEYS)) {
        const uint32_t *numbers = is_flat ? sets->numbers + at : NULL;
        if (push) {
            plain_push(&sparse->plain, &adagrad, sets->keys + at, numbers, KEYS,
                       values);
        } else {
            plain_pull(&sparse->plain, sets->keys + at, numbers, KEYS, values);
        }
        n += KEYS;
    }
    return (bench_cpu_self() - cpu) * 1e9 / (double)n;
}

/* The required rows a second. */
static double wanted(uint64_t rows, bool push)
{
    if (rows > 1000000) {
        return push ? 5e6 : 8e6;
    }
    return push ? 9e6 : 15e6;
}

enum { RATE, COST, FLAT, MEASURED };

static void measure(struct sparse *sparse, bool push)
{
    const char *name = push ? "push" : "pull";
    struct bench_measurement m[MEASURED] = {
        {.name = name, .unit = "rows/s", .baseline_name = "the rate asked for"},
        {.name = name, .unit = "ns", .baseline_name = "plain loop"},
        {.name = name, .unit = "ns", .baseline_name = "flat array"},
    };
    struct pair_load load = load_of(sparse, push, SETS);
    struct pair_run *run;
    double seconds = sparse->bench->seconds / BENCH_ROUNDS / MEASURED;
    pair_run_open(&sparse->pair, &load, &run);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        struct bench_sample sample = pair_run_for(run, seconds);
        m[RATE].value[i] = sample;
        m[RATE].value[i].value *= KEYS;
        m[RATE].baseline[i] = wanted(sparse->rows, push);
        m[COST].value[i].value = sample.cpu_ps_us * 1e3 / KEYS;
        m[COST].baseline[i] = plain_cost(sparse, push, false, seconds);
        m[FLAT].value[i].value = m[COST].value[i].value;
        m[FLAT].baseline[i] = plain_cost(sparse, push, true, seconds);
    }
    pair_run_close(run);
    for (size_t i = 0; i < MEASURED; i++) {
        m[i].params = sparse->params;
        m[i].n_rounds = BENCH_ROUNDS;
        bench_report(sparse->bench, "sparse", &m[i]);
    }
}

static void run(struct bench *bench, uint64_t rows)
{
    static const double exponents[] = {0, 1.05};
    struct sparse sparse = {.bench = bench, .rows = rows};
    pair_open(bench, PAIR_LOCAL, &sparse.pair);
    sets_open(&sparse.sets);
    sparse.table = pair_table(&sparse.pair, PLAIN_DIM, COXI_OPTIMIZER_ADAGRAD);
    fill(&sparse);
    plain_init(&sparse.plain, rows);
    for (uint64_t i = 0; i < rows; i++) {
        plain_put(&sparse.plain, bench_key(i));
    }
    for (size_t i = 0; i < sizeof(exponents) / sizeof(*exponents); i++) {
        char params[96];
        (void)snprintf(params, sizeof(params),
                       "{\"rows\":%llu,\"keys\":\"%s\",\"transport\":\"%s\"}",
                       (unsigned long long)rows, exponents[i] > 0 ? "zipf" : "uniform",
                       pair_transports[PAIR_LOCAL]);
        sparse.params = params;
        draw(&sparse.sets, rows, exponents[i]);
        measure(&sparse, false);
        measure(&sparse, true);
    }
    plain_fini(&sparse.plain);
    sets_close(&sparse.sets);
    pair_close(&sparse.pair);
}

void bench_sparse(struct bench *bench)
{
    run(bench, 1000000);
    run(bench, 20000000);
}
