/*
 * Case `table`: the cost of a row in a ps's table, in one thread, without links: pulls,
 * and pushes of gradients with Adagrad, of 4096 different rows of 16 floats at a time.
 * Against
 *   plain loop   the same hash, look-up and gather or update in one open-addressing
 *                table: no locks, no growth, no prefetching
 *   flat array   the same for rows whose numbers are known
 * and, `bytes`, the memory for rows of 8 floats with Adagrad after a fill in random
 * order, against their payload: key, values, state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/keys.h"
#include "bench/plain.h"
#include "coxswain/types.h"
#include "ps/table.h"

enum { DIM = PLAIN_DIM, BATCH = 4096, FILL = 1024 };

static const struct coxi_optimizer adagrad = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                              .learning_rate = 0.1F,
                                              .epsilon = 1e-7F,
                                              .initial_accumulator = 0.1F};

static struct coxi_variable describe(uint32_t dim)
{
    return (struct coxi_variable){.name = "t",
                                  .kind = COXI_KIND_TABLE,
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {dim},
                                  .optimizer = adagrad};
}

/* ---- a batch, in each of the three ways */

struct job {
    struct coxi_table *table;
    struct plain plain;
    struct bench_keys keys;
    uint32_t numbers[BATCH];
    uint64_t batch[BATCH];
    struct coxi_row *rows[BATCH];
    float values[BATCH * DIM];
};

enum way { TABLE, PLAIN, FLAT };

/* The numbers of the rows to use; only the flat array knows them. */
static const uint32_t *numbers_of(const struct job *job, enum way way)
{
    return way == FLAT ? job->numbers : NULL;
}

static void pull(struct job *job, enum way way)
{
    if (way == TABLE) {
        coxi_table_pull(job->table, job->batch, BATCH, job->values);
        return;
    }
    plain_pull(&job->plain, job->batch, numbers_of(job, way), BATCH, job->values);
}

static void push(struct job *job, enum way way)
{
    if (way == TABLE) {
        const struct coxi_table_change change = {.op = COXI_OP_GRADIENT,
                                                 .keys = job->batch,
                                                 .n = BATCH,
                                                 .values = job->values,
                                                 .rows = job->rows};
        bench_check(coxi_table_resolve(job->table, &change), "resolve");
        coxi_table_update(job->table, &change);
        return;
    }
    plain_push(&job->plain, &adagrad, job->batch, numbers_of(job, way), BATCH,
               job->values);
}

/* Nanoseconds of this thread for a row. */
static double spend(struct job *job, void (*run)(struct job *job, enum way way),
                    enum way way, double seconds)
{
    double spent = 0;
    size_t n = 0;
    while (spent < seconds) {
        bench_keys_draw(&job->keys, BATCH, job->numbers);
        for (size_t i = 0; i < BATCH; i++) {
            job->batch[i] = bench_key(job->numbers[i]);
        }
        double start = bench_cpu_self();
        run(job, way);
        spent += bench_cpu_self() - start;
        n += BATCH;
    }
    return 1e9 * spent / (double)n;
}

static void measure(struct bench *bench, struct job *job, const char *name,
                    void (*run)(struct job *job, enum way way))
{
    char params[128];
    struct bench_measurement plain = {
        .name = name, .params = params, .unit = "ns", .baseline_name = "plain loop"};
    struct bench_measurement flat = {
        .name = name, .params = params, .unit = "ns", .baseline_name = "flat array"};
    (void)snprintf(params, sizeof(params), "{\"rows\":%llu,\"keys\":\"%s\"}",
                   (unsigned long long)job->keys.rows,
                   job->keys.exponent > 0 ? "zipf" : "uniform");
    double seconds = bench->seconds / (BENCH_ROUNDS * 3);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        plain.value[i].value = spend(job, run, TABLE, seconds);
        plain.baseline[i] = spend(job, run, PLAIN, seconds);
        flat.value[i] = plain.value[i];
        flat.baseline[i] = spend(job, run, FLAT, seconds);
    }
    plain.n_rounds = BENCH_ROUNDS;
    flat.n_rounds = BENCH_ROUNDS;
    bench_report(bench, "table", &plain);
    bench_report(bench, "table", &flat);
}

/* ---- filling */

/* A permutation of [0, rows), so that rows are made in random order. */
static uint64_t shuffled(uint64_t i, uint64_t rows)
{
    /* The factor is a prime that does not divide `rows`, so no two i share a result. */
    return i * 0x9e3779b1u % rows;
}

static void fill(struct coxi_table *table, uint64_t rows, struct plain *plain)
{
    for (uint64_t i = 0; i < rows;) {
        uint64_t keys[FILL];
        struct coxi_row *made[FILL];
        struct coxi_table_change change = {
            .op = COXI_OP_ADD, .keys = keys, .rows = made};
        for (; change.n < FILL && i < rows; i++) {
            keys[change.n++] = bench_key(shuffled(i, rows));
        }
        bench_check(coxi_table_resolve(table, &change), "resolve");
    }
    for (uint64_t i = 0; plain != NULL && i < rows; i++) {
        plain_put(plain, bench_key(i));
    }
}

static void run_speed(struct bench *bench, uint64_t rows)
{
    static const double exponents[] = {0, 1.05};
    const struct coxi_variable v = describe(DIM);
    struct job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        bench_die("no memory");
    }
    bench_check(coxi_table_new(&v, NULL, &job->table), "table");
    plain_init(&job->plain, rows);
    fill(job->table, rows, &job->plain);
    for (size_t i = 0; i < sizeof(exponents) / sizeof(*exponents); i++) {
        bench_keys_init(&job->keys, rows, exponents[i], 1);
        if (bench_wants(bench, "pull")) {
            measure(bench, job, "pull", pull);
        }
        if (bench_wants(bench, "push")) {
            measure(bench, job, "push", push);
        }
        bench_keys_fini(&job->keys);
    }
    plain_fini(&job->plain);
    coxi_table_free(job->table);
    free(job);
}

/* ---- memory */

static double resident(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*s %llu", &pages) != 1) {
        bench_die("cannot read /proc/self/statm");
    }
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void run_memory(struct bench *bench, uint64_t rows)
{
    enum { NARROW = 8 };
    const struct coxi_variable v = describe(NARROW);
    struct coxi_table *table;
    char params[64];
    (void)snprintf(params, sizeof(params), "{\"rows\":%llu}", (unsigned long long)rows);
    struct bench_measurement m = {.name = "bytes",
                                  .params = params,
                                  .unit = "bytes",
                                  .baseline_name = "payload",
                                  .n_rounds = 1};
    double before = resident();
    bench_check(coxi_table_new(&v, NULL, &table), "table");
    fill(table, rows, NULL);
    m.value[0].value = (resident() - before) / (double)rows;
    m.baseline[0] = sizeof(uint64_t) + sizeof(float[2 * NARROW]);
    bench_report(bench, "table", &m);
    coxi_table_free(table);
}

/* The rows that were asked for, or as many as fit in three quarters of the free
 * memory. */
static uint64_t rows_to_measure(const struct bench *bench)
{
    enum { MANY = 100000000, FEWER = 10000000, ROW = 97 };
    double free_bytes =
        (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bench->rows > 0) {
        return bench->rows;
    }
    return free_bytes * 3 / 4 > (double)MANY * ROW ? MANY : FEWER;
}

void bench_table(struct bench *bench)
{
    if (bench_wants(bench, "pull") || bench_wants(bench, "push")) {
        run_speed(bench, 1000000);
        run_speed(bench, 20000000);
    }
    if (bench_wants(bench, "bytes")) {
        run_memory(bench, rows_to_measure(bench));
    }
}
