/* Tables: rows by key, made on first touch. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/initializer.h"
#include "common/rand.h"
#include "coxswain/types.h"
#include "ps/table.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

static const struct coxi_initializer uniform = {COXI_INIT_UNIFORM, -1, 1, 42};
static const struct coxi_optimizer adagrad = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                              .learning_rate = 0.1F,
                                              .epsilon = 1e-3F,
                                              .initial_accumulator = 0.5F};

static struct coxi_variable describe(uint32_t dim)
{
    return (struct coxi_variable){.name = "t",
                                  .kind = COXI_KIND_TABLE,
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {dim},
                                  .initializer = uniform};
}

static struct coxi_table *new_table(const struct coxi_variable *variable)
{
    struct coxi_table *table;
    assert_code(0, coxi_table_new(variable, NULL, &table));
    return table;
}

static void update(struct coxi_table *table, const uint64_t *keys, size_t n,
                   enum coxi_op op, const float *values)
{
    struct coxi_row *rows[64];
    struct coxi_table_change change = {
        .op = op, .keys = keys, .n = n, .values = values, .rows = rows};
    assert_true(n <= 64);
    assert_code(0, coxi_table_resolve(table, &change));
    coxi_table_update(table, &change);
}

/* Only finds or makes rows. */
static void resolve(struct coxi_table *table, const uint64_t *keys, size_t n,
                    struct coxi_row **ret)
{
    struct coxi_table_change change = {
        .op = COXI_OP_ADD, .keys = keys, .n = n, .rows = ret};
    assert_code(0, coxi_table_resolve(table, &change));
}

/* A different key for every i, spread over all 64 bits. */
static uint64_t key_of(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

/* Bytes of memory that this process takes. */
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(1, fscanf(file, "%*u %llu", &pages));
    (void)fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reads it like a snapshot. */
static void read_nothing(struct coxi_table *table)
{
    struct coxi_table_cut *cut;
    size_t n = 0;
    assert_code(0, coxi_table_cut_new(table, &cut));
    coxi_table_cut_begin(cut, false);
    while (coxi_table_cut_next(cut, NULL, &n) > 0) {
        assert_int_equal(0, n);
    }
    coxi_table_cut_end(cut);
    coxi_table_cut_free(cut);
}

TEST(table_without_rows_takes_a_few_kilobytes)
{
    needs_true_memory();
    enum { TABLES = 512 };
    static struct coxi_table *tables[TABLES];
    struct coxi_variable v = describe(6);
    uint64_t before = resident_bytes();
    for (int i = 0; i < TABLES; i++) {
        tables[i] = new_table(&v);
        read_nothing(tables[i]);
    }
    /* A table with rows has 64 KiB of buckets; without rows it must take less. The
     * count includes a sanitizer's own memory. */
    assert_true(resident_bytes() - before < TABLES * UINT64_C(24) * 1024);
    for (int i = 0; i < TABLES; i++) {
        coxi_table_free(tables[i]);
    }
}

/* ---- rows that are not there, and new ones */

TEST(table_reads_absent_rows_as_initial_values_and_makes_none)
{
    struct coxi_variable v = describe(6);
    struct coxi_table *table = new_table(&v);
    const uint64_t keys[] = {1, 0, UINT64_MAX, 1};
    float found[4][6];
    coxi_table_pull(table, keys, 4, found[0]);
    for (size_t i = 0; i < 4; i++) {
        float expected[6];
        coxi_initializer_row(&uniform, keys[i], expected, 6);
        assert_memory_equal(expected, found[i], sizeof(expected));
    }
    assert_int_equal(0, coxi_table_rows(table));
    assert_int_equal(0, coxi_table_bytes(table));
    coxi_table_free(table);
}

TEST(table_rows_start_as_they_were_read_before)
{
    struct coxi_variable v = describe(5);
    struct coxi_table *table = new_table(&v);
    const uint64_t keys[] = {3, 4};
    const float zeros[10] = {0};
    float before[10];
    float after[10];
    coxi_table_pull(table, keys, 2, before);
    update(table, keys, 2, COXI_OP_ADD, zeros);
    coxi_table_pull(table, keys, 2, after);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(2, coxi_table_rows(table));
    assert_true(coxi_table_bytes(table) >= 2 * (8 + 5 * sizeof(float)));
    coxi_table_free(table);
}

TEST(table_takes_the_first_and_the_last_key)
{
    struct coxi_variable v = describe(1);
    struct coxi_table *table = new_table(&v);
    const uint64_t keys[] = {0, UINT64_MAX, 1};
    const float values[] = {10, 20, 30};
    float found[3];
    update(table, keys, 3, COXI_OP_ASSIGN, values);
    coxi_table_pull(table, keys, 3, found);
    assert_memory_equal(values, found, sizeof(values));
    assert_int_equal(3, coxi_table_rows(table));
    coxi_table_free(table);
}

TEST(table_applies_a_key_that_comes_twice_in_order)
{
    struct coxi_variable v = describe(2);
    struct coxi_table *table = new_table(&v);
    const uint64_t keys[] = {5, 5, 6, 5};
    const float values[] = {1, 2, 3, 4, 9, 9, 5, 6};
    float found[2];
    update(table, keys, 4, COXI_OP_ASSIGN, values);
    coxi_table_pull(table, keys, 1, found);
    assert_true(found[0] == 5 && found[1] == 6);
    update(table, keys, 4, COXI_OP_ADD, values);
    coxi_table_pull(table, keys, 1, found);
    assert_true(found[0] == 5 + 1 + 3 + 5 && found[1] == 6 + 2 + 4 + 6);
    assert_int_equal(2, coxi_table_rows(table));
    coxi_table_free(table);
}

/* ---- growth */

TEST(table_grows_to_200000_rows)
{
    enum { N = 200000, BATCH = 50 };
    struct coxi_variable v = describe(1);
    struct coxi_table *table = new_table(&v);
    uint64_t keys[BATCH];
    float values[BATCH];
    for (uint64_t i = 0; i < N; i += BATCH) {
        for (uint64_t j = 0; j < BATCH; j++) {
            keys[j] = key_of(i + j);
            values[j] = (float)(i + j);
        }
        update(table, keys, BATCH, COXI_OP_ASSIGN, values);
    }
    assert_int_equal(N, coxi_table_rows(table));
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key = key_of(i);
        float found;
        coxi_table_pull(table, &key, 1, &found);
        assert_true(found == (float)i);
    }
    coxi_table_free(table);
}

TEST(table_rows_never_move)
{
    enum { N = 500 };
    static struct coxi_row *before[N];
    static struct coxi_row *after[N];
    static uint64_t keys[N];
    struct coxi_variable v = describe(3);
    struct coxi_table *table = new_table(&v);
    for (uint64_t i = 0; i < N; i++) {
        keys[i] = key_of(i);
    }
    resolve(table, keys, N, before);
    for (uint64_t i = N; i < 60000; i++) {
        struct coxi_row *row;
        uint64_t key = key_of(i);
        resolve(table, &key, 1, &row);
    }
    resolve(table, keys, N, after);
    assert_memory_equal(before, after, sizeof(before));
    coxi_table_free(table);
}

/* ---- visits */

struct visits {
    uint64_t keys[1000];
    size_t n;
    size_t stop_at;
};

static int note(void *arg, uint64_t key, const float *values, const float *state,
                const struct coxi_row_life *life)
{
    struct visits *visits = arg;
    if (visits->n == visits->stop_at || visits->n == 1000) {
        return COX_EIO;
    }
    visits->keys[visits->n++] = key;
    return values != NULL && *state == 0.5F && life == NULL ? 0 : COX_EINVAL;
}

TEST(table_visits_every_row_once)
{
    enum { N = 1000 };
    struct coxi_variable v = describe(2);
    v.optimizer = adagrad;
    struct coxi_table *table = new_table(&v);
    static struct visits first = {.stop_at = N};
    static struct visits third = {.stop_at = 10};
    static bool seen[N];
    for (uint64_t i = 0; i < N; i++) {
        struct coxi_row *row;
        resolve(table, &i, 1, &row);
    }
    assert_code(0, visit_rows(table, note, &first));
    assert_int_equal(N, first.n);
    for (size_t i = 0; i < N; i++) {
        assert_true(first.keys[i] < N && !seen[first.keys[i]]);
        seen[first.keys[i]] = true;
    }
    assert_code(COX_EIO, visit_rows(table, note, &third));
    assert_int_equal(10, third.n);
    coxi_table_free(table);
}

/* ---- against a plain map */

enum { DIM = 3, KEYS = 300 };

struct plain_row {
    bool there;
    double w[DIM];
    double sum[DIM];
};

/* Row `i` of the map, made as the table makes it. */
static struct plain_row *touch(struct plain_row *rows, size_t i)
{
    if (!rows[i].there) {
        float initial[DIM];
        coxi_initializer_row(&uniform, key_of(i), initial, DIM);
        for (size_t c = 0; c < DIM; c++) {
            rows[i].w[c] = (double)initial[c];
            rows[i].sum[c] = (double)adagrad.initial_accumulator;
        }
        rows[i].there = true;
    }
    return &rows[i];
}

static void update_plainly(struct plain_row *row, enum coxi_op op, const float *values)
{
    for (size_t c = 0; c < DIM; c++) {
        double value = (double)values[c];
        if (op == COXI_OP_GRADIENT) {
            row->sum[c] += value * value;
            row->w[c] -= (double)adagrad.learning_rate * value /
                         (sqrt(row->sum[c]) + (double)adagrad.epsilon);
        } else {
            row->w[c] = written(op, row->w[c], value);
        }
    }
}

static void update_both(struct coxi_table *table, struct plain_row *rows, uint64_t *rng)
{
    uint64_t keys[16];
    float values[16 * DIM];
    size_t n = coxi_rand(rng) % 17;
    enum coxi_op op = (enum coxi_op)(coxi_rand(rng) % 5);
    for (size_t i = 0; i < n * DIM; i++) {
        values[i] = (float)(coxi_rand_unit(rng) - 0.5);
    }
    for (size_t i = 0; i < n; i++) {
        size_t row = coxi_rand(rng) % KEYS;
        keys[i] = key_of(row);
        update_plainly(touch(rows, row), op, values + i * DIM);
    }
    update(table, keys, n, op, values);
}

static void compare_pull(struct coxi_table *table, const struct plain_row *rows,
                         uint64_t *rng)
{
    uint64_t keys[16];
    size_t at[16];
    float found[16][DIM];
    for (size_t i = 0; i < 16; i++) {
        at[i] = coxi_rand(rng) % KEYS;
        keys[i] = key_of(at[i]);
    }
    coxi_table_pull(table, keys, 16, found[0]);
    for (size_t i = 0; i < 16; i++) {
        struct plain_row expected[KEYS];
        expected[at[i]] = rows[at[i]];
        (void)touch(expected, at[i]);
        for (size_t c = 0; c < DIM; c++) {
            assert_true(fabs(expected[at[i]].w[c] - (double)found[i][c]) < 1e-5);
        }
    }
}

TEST(table_agrees_with_a_plain_map)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct coxi_variable v = describe(DIM);
        v.optimizer = adagrad;
        struct coxi_table *table = new_table(&v);
        struct plain_row *rows = calloc(KEYS, sizeof(*rows));
        uint64_t rng = seed;
        size_t n = 0;
        for (int i = 0; i < 1500; i++) {
            update_both(table, rows, &rng);
            if (i % 10 == 0) {
                compare_pull(table, rows, &rng);
            }
        }
        for (size_t i = 0; i < KEYS; i++) {
            n += rows[i].there ? 1 : 0;
        }
        assert_int_equal(n, coxi_table_rows(table));
        free(rows);
        coxi_table_free(table);
    }
}

/* ---- threads */

enum { WIDE = 64, SHARED = 400, ROUNDS = 3000, N_THREADS = 4 };

struct storm {
    struct coxi_table *table;
    atomic_uint next_seed;
    atomic_uint n_torn;
    atomic_uint n_failed;
};

static void *add_ones(void *arg)
{
    struct storm *storm = arg;
    static _Thread_local float ones[4 * WIDE];
    uint64_t seed = atomic_fetch_add(&storm->next_seed, 1);
    for (size_t i = 0; i < (size_t)4 * WIDE; i++) {
        ones[i] = 1;
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t keys[4];
        struct coxi_row *rows[4];
        float found[WIDE];
        for (uint64_t j = 0; j < 4; j++) {
            keys[j] = key_of((coxi_rand(&seed) + i) % SHARED);
        }
        struct coxi_table_change change = {
            .op = COXI_OP_ADD, .keys = keys, .n = 4, .values = ones, .rows = rows};
        if (coxi_table_resolve(storm->table, &change) != 0) {
            atomic_fetch_add(&storm->n_failed, 1);
            continue;
        }
        coxi_table_update(storm->table, &change);
        coxi_table_pull(storm->table, &keys[coxi_rand(&seed) % 4], 1, found);
        if (memcmp(found, found + 1, sizeof(found) - sizeof(*found)) != 0) {
            atomic_fetch_add(&storm->n_torn, 1);
        }
    }
    return NULL;
}

TEST(table_sums_up_what_threads_add_and_never_tears_a_row)
{
    struct coxi_variable v = describe(WIDE);
    v.initializer = (struct coxi_initializer){.kind = COXI_INIT_CONSTANT, .a = 0};
    struct storm storm = {.table = new_table(&v)};
    pthread_t threads[N_THREADS];
    double sum = 0;
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, add_ones, &storm));
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    for (uint64_t i = 0; i < SHARED; i++) {
        uint64_t key = key_of(i);
        float found[WIDE];
        coxi_table_pull(storm.table, &key, 1, found);
        sum += (double)found[WIDE - 1];
    }
    assert_int_equal(0, atomic_load(&storm.n_failed));
    assert_int_equal(0, atomic_load(&storm.n_torn));
    assert_int_equal(N_THREADS * ROUNDS * 4, (int)sum);
    assert_int_equal(SHARED, coxi_table_rows(storm.table));
    coxi_table_free(storm.table);
}
