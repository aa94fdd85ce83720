/*
 * Every rule against its formula in float64 (optimizer_vectors.py, which made
 * optimizer_vectors.inc): dense variables and tables, on 1 and on 3 ps, with and
 * without schedule, clip and decay.
 */
#include <math.h>

#include "common/initializer.h"
#include "coxswain/types.h"
#include "ps/dense.h"
#include "ps/table.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

enum { ROWS = 6, COLUMNS = 2, STEPS = 12, ALL = ROWS * COLUMNS, PS_MAX = 3 };

static const struct vector {
    const char *name;
    struct coxi_optimizer optimizer;
    double dense[2][ALL]; /* on 1 ps, on 3 */
    double table[ALL];
} vectors[] = {
#include "tests/ps/optimizer_vectors.inc"
};

enum { N_VECTORS = sizeof(vectors) / sizeof(*vectors) };

/* The same formula as in optimizer_vectors.py. */
static float gradient(uint64_t step, uint64_t row, uint64_t column)
{
    return ((float)((step * 7 + (row * COLUMNS + column) * 5) % 17) - 8) / 8;
}

static void assert_vector(const char *name, const double *expected, const float *w)
{
    for (size_t i = 0; i < ALL; i++) {
        double error = fabs(expected[i] - (double)w[i]);
        if (!(error <= 2e-6 * fmax(fabs(expected[i]), 0.1))) {
            fail_msg("%s: value %zu is %.9g, not %.9g", name, i, (double)w[i],
                     expected[i]);
        }
    }
}

static struct coxi_variable variable_of(const struct vector *vector,
                                        enum coxi_kind kind)
{
    struct coxi_variable v = {.name = vector->name,
                              .kind = kind,
                              .dtype = COX_F32,
                              .rank = 1,
                              .shape = {COLUMNS},
                              .optimizer = vector->optimizer,
                              .initializer = {.kind = COXI_INIT_CONSTANT, .a = 0.5F}};
    if (kind == COXI_KIND_DENSE) {
        v.rank = 2;
        v.shape[0] = ROWS;
        v.shape[1] = COLUMNS;
    }
    return v;
}

static void compare_dense(const struct vector *vector, uint64_t n_ps)
{
    struct coxi_variable v = variable_of(vector, COXI_KIND_DENSE);
    struct coxi_shard shards[PS_MAX];
    struct coxi_dense *parts[PS_MAX];
    const uint64_t count = ROWS / n_ps;
    float w[ROWS][COLUMNS];
    v.shards = shards;
    v.n_shards = n_ps;
    for (uint64_t p = 0; p < n_ps; p++) {
        shards[p] = (struct coxi_shard){p, p * count, count};
        assert_code(0, coxi_dense_new(&v, &shards[p], NULL, &parts[p]));
    }
    assert_code(0, coxi_variable_check(&v, n_ps));
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t i = 0; i < ALL; i++) {
            w[i / COLUMNS][i % COLUMNS] = gradient(step, i / COLUMNS, i % COLUMNS);
        }
        for (uint64_t p = 0; p < n_ps; p++) {
            update_rows(parts[p], p * count, count, COXI_OP_GRADIENT, w[p * count]);
        }
    }
    for (uint64_t p = 0; p < n_ps; p++) {
        read_rows(parts[p], &v, p * count, count, w[p * count]);
        coxi_dense_free(parts[p]);
    }
    assert_vector(vector->name, vector->dense[n_ps == 1 ? 0 : 1], w[0]);
}

/* Each ps has every n_ps-th key, so each ps gets a gradient in each step. */
static void push_rows(struct coxi_table *const *tables, uint64_t n_ps, uint64_t step)
{
    for (uint64_t p = 0; p < n_ps; p++) {
        uint64_t keys[ROWS];
        float values[ROWS][COLUMNS];
        struct coxi_row *rows[ROWS];
        struct coxi_table_change change = {
            .step = step, .keys = keys, .values = values[0], .rows = rows};
        for (uint64_t key = 0; key < ROWS; key++) {
            if (key / 3 == step % 2 && key % n_ps == p) {
                for (uint64_t c = 0; c < COLUMNS; c++) {
                    values[change.n][c] = gradient(step, key, c);
                }
                keys[change.n++] = key;
            }
        }
        assert_true(change.n > 0);
        assert_code(0, coxi_table_resolve(tables[p], &change));
        coxi_table_update(tables[p], &change);
    }
}

static void compare_table(const struct vector *vector, uint64_t n_ps)
{
    const struct coxi_variable v = variable_of(vector, COXI_KIND_TABLE);
    struct coxi_table *tables[PS_MAX];
    float w[ROWS][COLUMNS];
    assert_code(0, coxi_variable_check(&v, n_ps));
    for (uint64_t p = 0; p < n_ps; p++) {
        assert_code(0, coxi_table_new(&v, NULL, &tables[p]));
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        push_rows(tables, n_ps, step);
    }
    for (uint64_t key = 0; key < ROWS; key++) {
        coxi_table_pull(tables[key % n_ps], &key, 1, w[key]);
    }
    for (uint64_t p = 0; p < n_ps; p++) {
        coxi_table_free(tables[p]);
    }
    assert_vector(vector->name, vector->table, w[0]);
}

TEST(dense_variables_follow_the_formulas)
{
    for (size_t i = 0; i < N_VECTORS; i++) {
        compare_dense(&vectors[i], 1);
        compare_dense(&vectors[i], 3);
    }
}

TEST(tables_follow_the_formulas)
{
    for (size_t i = 0; i < N_VECTORS; i++) {
        compare_table(&vectors[i], 1);
        compare_table(&vectors[i], 3);
    }
}
