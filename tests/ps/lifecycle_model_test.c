/* Rows that are made and evicted: against a plain map, and with many threads. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/initializer.h"
#include "common/rand.h"
#include "coxswain/types.h"
#include "ps/table_internal.h"
#include "tests/ps/lifecycle.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

/* ---- against a plain map, which copies the table's choice where the table draws */

enum { KEYS = 400 };

struct plain_row {
    bool there;
    bool seen;
    uint32_t asked;
    uint64_t last;
    uint64_t made;
    uint32_t updates;
    float w[LIFECYCLE_WIDE];
};

struct model {
    struct coxi_variable variable;
    struct coxi_table *table;
    struct plain_row rows[KEYS];
    uint64_t step;
    uint64_t rng;
};

static void make(struct model *m, struct plain_row *row, uint64_t key)
{
    row->there = true;
    row->last = m->step;
    row->made = m->step;
    row->updates = 0;
    coxi_initializer_row(&lifecycle_uniform, key, row->w, m->variable.shape[0]);
}

/* True if a gradient makes a row. With admit_probability the table draws, so this
 * function looks up the table's decision. */
static bool admitted(struct model *m, uint64_t key, bool is_there_now)
{
    const struct coxi_lifecycle *l = &m->variable.lifecycle;
    struct plain_row *row = &m->rows[key];
    row->asked++;
    if (row->asked < l->admit_count) {
        return false;
    }
    return l->admit_probability == 0 || is_there_now;
}

/* Applies a change to one key of the map. Whether the table's draw has admitted the key
 * is looked up in the table after the rows were resolved. */
static void change_plainly(struct model *m, const struct coxi_table_change *change,
                           size_t i, uint64_t now)
{
    uint64_t key = change->keys[i];
    struct plain_row *row = &m->rows[key];
    if (row->there && change->op == COXI_OP_GRADIENT) {
        row->last = now;
        row->updates++;
    }
    for (size_t c = 0; row->there && c < m->variable.shape[0]; c++) {
        float value = change->values[i * m->variable.shape[0] + c];
        row->w[c] = change->op == COXI_OP_GRADIENT
                        ? row->w[c] - value
                        : (float)written(change->op, (double)row->w[c], (double)value);
    }
}

static void change_both(struct model *m)
{
    struct lifecycle_work work;
    size_t dim = m->variable.shape[0];
    bool there[LIFECYCLE_CHANGE_MAX];
    /* only one region of keys is in use for a while */
    uint64_t region = coxi_rand(&m->rng) % KEYS;
    lifecycle_begin(&work, (enum coxi_op)(coxi_rand(&m->rng) % 9), 0,
                    coxi_rand(&m->rng) % (LIFECYCLE_CHANGE_MAX + 1));
    work.change.op = work.change.op > COXI_OP_MAX ? COXI_OP_GRADIENT : work.change.op;
    work.change.draw = coxi_rand(&m->rng);
    for (size_t i = 0; i < work.change.n; i++) {
        work.keys[i] = (region + coxi_rand(&m->rng) % 100) % KEYS;
        for (size_t c = 0; c < dim; c++) {
            work.values[i * dim + c] = (float)coxi_rand_unit(&m->rng) - 0.5F;
        }
    }
    assert_code(0, coxi_table_resolve(m->table, &work.change));
    for (size_t i = 0; i < work.change.n; i++) {
        there[i] = m->rows[work.keys[i]].there;
    }
    for (size_t i = 0; i < work.change.n; i++) {
        uint64_t key = work.keys[i];
        bool has_row = work.rows[i] != NULL;
        if (!there[i]) {
            bool expected =
                work.change.op != COXI_OP_GRADIENT || admitted(m, key, has_row);
            assert_int_equal(expected, has_row);
            if (has_row && !m->rows[key].there) {
                make(m, &m->rows[key], key);
            }
        }
    }
    uint64_t now = m->step + 1;
    for (size_t i = 0; i < work.change.n; i++) {
        if (work.rows[i] != NULL) {
            change_plainly(m, &work.change, i, now);
        }
    }
    coxi_table_update(m->table, &work.change);
    m->step += work.change.op == COXI_OP_GRADIENT && work.change.n > 0 ? 1 : 0;
}

static int see(void *arg, uint64_t key, const float *values, const float *state,
               const struct coxi_row_life *life)
{
    struct model *m = arg;
    (void)state;
    assert_true(key < KEYS && m->rows[key].there && !m->rows[key].seen);
    m->rows[key].seen = true;
    assert_memory_equal(m->rows[key].w, values, m->variable.shape[0] * sizeof(float));
    assert_int_equal(life != NULL, coxi_table_ages(m->table));
    if (life != NULL) {
        assert_int_equal(m->rows[key].last, life->last);
        assert_int_equal(m->rows[key].made, life->made);
        assert_int_equal(m->rows[key].updates, life->updates);
        assert_int_equal(0, life->pins);
    }
    return 0;
}

static bool may_go(const struct model *m, const struct plain_row *row)
{
    const struct coxi_lifecycle *l = &m->variable.lifecycle;
    return l->rows_max > 0 ||
           (l->evict_age > 0 && m->step - row->last >= l->evict_age) ||
           (l->evict_count > 0 && row->updates < l->evict_count &&
            m->step - row->made >= l->evict_count_age);
}

static void compare(struct model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        m->rows[i].seen = false;
    }
    assert_code(0, visit_rows(m->table, see, m));
    for (size_t i = 0; i < KEYS; i++) {
        struct plain_row *row = &m->rows[i];
        assert_true(!row->there || row->seen || may_go(m, row));
        row->there = row->seen;
        n += row->seen ? 1 : 0;
    }
    assert_int_equal(n, coxi_table_rows(m->table));
    uint64_t most = m->variable.lifecycle.rows_max;
    assert_true(most == 0 || n <= most);
}

static void compare_pull(struct model *m)
{
    for (uint64_t key = 0; key < KEYS; key += 1 + coxi_rand(&m->rng) % 8) {
        float expected[LIFECYCLE_WIDE];
        float found[LIFECYCLE_WIDE];
        size_t bytes = m->variable.shape[0] * sizeof(float);
        coxi_initializer_row(&lifecycle_uniform, key, expected, m->variable.shape[0]);
        coxi_table_pull(m->table, &key, 1, found);
        assert_memory_equal(m->rows[key].there ? m->rows[key].w : expected, found,
                            bytes);
    }
}

static const struct coxi_lifecycle lifecycles[] = {
    {0},
    {.admit_count = 4},
    {.admit_probability = 0.3F},
    {.evict_age = 40},
    {.evict_count = 3, .evict_count_age = 30},
    {.rows_max = 120},
    {.admit_count = 2, .admit_probability = 0.5F, .evict_age = 60},
    {.admit_count = 2,
     .evict_age = 50,
     .evict_count = 2,
     .evict_count_age = 20,
     .rows_max = 150},
};

TEST(tables_whose_rows_come_and_go_agree_with_a_plain_map)
{
    enum { N = sizeof(lifecycles) / sizeof(*lifecycles) };
    static struct model m;
    for (uint64_t seed = 1; seed <= 3 * N; seed++) {
        m = (struct model){.rng = seed};
        m.variable = lifecycle_variable(1 + (uint32_t)(seed * 5 % LIFECYCLE_WIDE),
                                        lifecycles[seed % N]);
        m.table = lifecycle_table(&m.variable);
        for (int i = 0; i < 400; i++) {
            change_both(&m);
            compare(&m);
            compare_pull(&m);
        }
        coxi_table_free(m.table);
    }
}

/* The same rows are evicted each time, too. */
TEST(the_same_changes_in_the_same_order_leave_the_same_rows)
{
    struct coxi_variable v = lifecycle_variable(
        1, (struct coxi_lifecycle){.admit_count = 2, .evict_age = 30, .rows_max = 150});
    struct coxi_table *tables[2] = {lifecycle_table(&v), lifecycle_table(&v)};
    for (int k = 0; k < 2; k++) {
        uint64_t rng = 5;
        for (int i = 0; i < 1000; i++) {
            lifecycle_push(tables[k], coxi_rand(&rng) % 1000, coxi_rand(&rng) % 40);
        }
    }
    assert_true(coxi_table_rows(tables[0]) > 50);
    for (uint64_t i = 0; i < 1100; i++) {
        assert_int_equal(lifecycle_has(tables[0], i), lifecycle_has(tables[1], i));
        assert_true(lifecycle_moved(tables[0], i) == lifecycle_moved(tables[1], i));
    }
    coxi_table_free(tables[0]);
    coxi_table_free(tables[1]);
}

/* ---- threads */

enum { N_THREADS = 4, ROUNDS = 1500, SPREAD = 600 };

struct storm {
    struct coxi_table *table;
    atomic_uint next_seed;
    atomic_uint n_torn;
    atomic_uint n_failed;
};

static void *rage(void *arg)
{
    struct storm *storm = arg;
    struct lifecycle_work work;
    float found[LIFECYCLE_WIDE];
    uint64_t rng = atomic_fetch_add(&storm->next_seed, 1);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t first = coxi_rand(&rng) % SPREAD;
        lifecycle_begin(&work, i % 3 == 0 ? COXI_OP_ADD : COXI_OP_GRADIENT, first, 8);
        if (coxi_table_resolve(storm->table, &work.change) != 0) {
            atomic_fetch_add(&storm->n_failed, 1);
        } else if (i % 10 == 0) {
            coxi_table_release(storm->table, &work.change);
        } else {
            coxi_table_update(storm->table, &work.change);
        }
        uint64_t key = coxi_rand(&rng) % SPREAD;
        coxi_table_pull(storm->table, &key, 1, found);
        if (memcmp(found, found + 1, sizeof(found) - sizeof(*found)) != 0) {
            atomic_fetch_add(&storm->n_torn, 1);
        }
    }
    return NULL;
}

static int check_unpinned(void *arg, uint64_t key, const float *values,
                          const float *state, const struct coxi_row_life *life)
{
    (void)arg;
    (void)values;
    (void)state;
    return key < SPREAD + 8 && life->pins == 0 ? 0 : COX_EINVAL;
}

TEST(no_row_is_torn_or_kept_while_threads_make_and_drop_them)
{
    struct coxi_variable v = lifecycle_variable(
        LIFECYCLE_WIDE,
        (struct coxi_lifecycle){.admit_count = 2, .evict_age = 50, .rows_max = 200});
    v.initializer = (struct coxi_initializer){.kind = COXI_INIT_CONSTANT, .a = 1};
    struct storm storm = {.table = lifecycle_table(&v)};
    struct coxi_table_counters counts;
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, rage, &storm));
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, atomic_load(&storm.n_torn));
    assert_int_equal(0, atomic_load(&storm.n_failed));
    /* evicts rows that a thread left over because another thread was evicting */
    lifecycle_push(storm.table, 0, 1);
    assert_code(0, visit_rows(storm.table, check_unpinned, NULL));
    coxi_table_counts(storm.table, &counts);
    assert_true(counts.rows <= 200 && counts.evicted > 0);
    assert_int_equal(counts.rows, counts.admitted - counts.evicted);
    coxi_table_free(storm.table);
}
