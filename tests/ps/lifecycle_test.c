/* Rows that are admitted, and rows that go again. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/initializer.h"
#include "common/rand.h"
#include "coxswain/types.h"
#include "ps/table_internal.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

enum { CHANGE_MAX = 64, WIDE = 16 };

static const struct coxi_initializer uniform = {COXI_INIT_UNIFORM, -1, 1, 42};

/* Rows of `dim`, SGD of rate 1: a gradient is subtracted. */
static struct coxi_variable describe(uint32_t dim, struct coxi_lifecycle lifecycle)
{
    return (struct coxi_variable){
        .name = "t",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {dim},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
        .initializer = uniform,
        .lifecycle = lifecycle};
}

static struct coxi_table *new_table(const struct coxi_variable *v)
{
    struct coxi_table *table;
    assert_code(0, coxi_variable_check(v, 1));
    assert_code(0, coxi_table_new(v, NULL, &table));
    return table;
}

/* ---- changes of rows of one float */

struct work {
    struct coxi_table_change change;
    uint64_t keys[CHANGE_MAX];
    float values[CHANGE_MAX * WIDE];
    struct coxi_row *rows[CHANGE_MAX];
};

/* A change to keys [first, first + n), each value 1. */
static void begin(struct work *work, enum coxi_op op, uint64_t first, size_t n)
{
    work->change = (struct coxi_table_change){.op = op,
                                              .draw = first,
                                              .keys = work->keys,
                                              .n = n,
                                              .values = work->values,
                                              .rows = work->rows};
    assert_true(n <= CHANGE_MAX);
    for (size_t i = 0; i < n; i++) {
        work->keys[i] = first + i;
    }
    for (size_t i = 0; i < (size_t)CHANGE_MAX * WIDE; i++) {
        work->values[i] = 1;
    }
}

static void apply(struct coxi_table *table, enum coxi_op op, uint64_t first, size_t n)
{
    struct work work;
    begin(&work, op, first, n);
    assert_code(0, coxi_table_resolve(table, &work.change));
    coxi_table_update(table, &work.change);
}

static void push(struct coxi_table *table, uint64_t first, size_t n)
{
    apply(table, COXI_OP_GRADIENT, first, n);
}

/* How far a row of one float is from where it started. */
static float moved(struct coxi_table *table, uint64_t key)
{
    float initial;
    float found;
    coxi_initializer_row(&uniform, key, &initial, 1);
    coxi_table_pull(table, &key, 1, &found);
    return roundf((found - initial) * 100) / 100;
}

/* Whether a pull of a key finds its row. */
static bool is_there(struct coxi_table *table, uint64_t key)
{
    struct coxi_table_counters before;
    struct coxi_table_counters after;
    float row[WIDE];
    coxi_table_counts(table, &before);
    coxi_table_pull(table, &key, 1, row);
    coxi_table_counts(table, &after);
    assert_int_equal(before.lookups + 1, after.lookups);
    return after.hits > before.hits;
}

/* ---- admission */

TEST(a_key_gets_its_row_with_the_update_that_it_is_admitted_with)
{
    struct coxi_variable v = describe(1, (struct coxi_lifecycle){.admit_count = 3});
    struct coxi_table *table = new_table(&v);
    for (int i = 0; i < 2; i++) {
        push(table, 7, 1);
        assert_int_equal(0, coxi_table_rows(table));
        assert_true(moved(table, 7) == 0);
    }
    push(table, 7, 1);
    assert_int_equal(1, coxi_table_rows(table));
    assert_true(moved(table, 7) == -1); /* what came before is forgotten */
    push(table, 7, 1);
    assert_true(moved(table, 7) == -2);
    assert_int_equal(4, coxi_table_step(table));
    coxi_table_free(table);
}

TEST(what_is_no_gradient_makes_a_row_at_once)
{
    static const enum coxi_op ops[] = {COXI_OP_ADD, COXI_OP_ASSIGN, COXI_OP_MIN,
                                       COXI_OP_MAX};
    struct coxi_variable v = describe(
        1, (struct coxi_lifecycle){.admit_count = 100, .admit_probability = 0.001F});
    struct coxi_table *table = new_table(&v);
    for (size_t i = 0; i < 4; i++) {
        apply(table, ops[i], i, 1);
        assert_int_equal(i + 1, coxi_table_rows(table));
        push(table, i, 1); /* is there, whoever made it */
    }
    assert_true(moved(table, 0) == 0);
    coxi_table_free(table);
}

TEST(keys_are_drawn_with_their_probability_and_by_their_commit)
{
    enum { N = 10000 };
    struct coxi_variable v =
        describe(1, (struct coxi_lifecycle){.admit_probability = 0.25F});
    struct coxi_table *first = new_table(&v);
    struct coxi_table *second = new_table(&v);
    for (uint64_t i = 0; i < N; i += 50) {
        push(first, i, 50);
        push(second, i, 50);
    }
    uint64_t n = coxi_table_rows(first);
    assert_true(n > N / 4 - 250 && n < N / 4 + 250);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(is_there(first, i), is_there(second, i));
    }
    for (uint64_t i = 0; i < N; i += 50) {
        struct work work;
        begin(&work, COXI_OP_GRADIENT, i, 50);
        work.change.draw = N + i; /* other commits */
        assert_code(0, coxi_table_resolve(first, &work.change));
        coxi_table_update(first, &work.change);
    }
    n = coxi_table_rows(first);
    assert_true(n > N * 7 / 16 - 250 && n < N * 7 / 16 + 250);
    coxi_table_free(first);
    coxi_table_free(second);
}

TEST(count_and_probability_must_agree)
{
    enum { N = 10000 };
    struct coxi_variable v = describe(
        1, (struct coxi_lifecycle){.admit_count = 2, .admit_probability = 0.5F});
    struct coxi_table *table = new_table(&v);
    for (uint64_t i = 0; i < N; i += 50) {
        push(table, i, 50);
    }
    assert_int_equal(0, coxi_table_rows(table));
    for (uint64_t i = 0; i < N; i += 50) {
        push(table, i, 50);
    }
    uint64_t n = coxi_table_rows(table);
    assert_true(n > N / 2 - 300 && n < N / 2 + 300);
    coxi_table_free(table);
}

/* So many that every counter is shared by several. */
TEST(no_key_is_admitted_late_however_many_there_are)
{
    enum { COUNT = 5, OTHERS = 1500000, KEYS = 500 };
    const struct coxi_lifecycle lifecycle = {.admit_count = COUNT};
    struct coxi_admission *admission;
    assert_code(0, coxi_admission_new(&lifecycle, &admission));
    size_t early = 0;
    for (uint64_t key = 0; key < OTHERS; key++) {
        early += coxi_admission_ask(admission, key, 0) ? 1 : 0;
    }
    assert_true(early < OTHERS / 5);
    for (uint64_t key = OTHERS; key < OTHERS + KEYS; key++) {
        for (int i = 1; i < COUNT; i++) {
            (void)coxi_admission_ask(admission, key, 0);
        }
        assert_true(coxi_admission_ask(admission, key, 0));
    }
    coxi_admission_free(admission);
}

/* ---- eviction */

TEST(rows_without_gradients_go_and_come_back_as_they_first_were)
{
    enum { N = 500, AGE = 20 };
    struct coxi_variable v = describe(1, (struct coxi_lifecycle){.evict_age = AGE});
    struct coxi_table *table = new_table(&v);
    struct coxi_table_counters counts;
    for (uint64_t i = 0; i < N; i += 50) {
        push(table, i, 50);
    }
    assert_int_equal(N, coxi_table_rows(table));
    for (int i = 0; coxi_table_rows(table) > 10 && i < 1000; i++) {
        push(table, 0, 10);
        assert_true(moved(table, 5) == -(float)(i + 2));
    }
    coxi_table_counts(table, &counts);
    assert_int_equal(10, counts.rows);
    assert_int_equal(N, counts.admitted);
    assert_int_equal(N - 10, counts.evicted);
    assert_true(moved(table, 100) == 0);
    push(table, 100, 1);
    assert_true(moved(table, 100) == -1);
    coxi_table_free(table);
}

TEST(rows_with_few_gradients_go_when_their_time_has_come)
{
    struct coxi_variable v =
        describe(1, (struct coxi_lifecycle){.evict_count = 3, .evict_count_age = 50});
    struct coxi_table *table = new_table(&v);
    push(table, 0, 60);
    for (int i = 0; i < 2; i++) {
        push(table, 0, 30); /* these have three */
    }
    for (uint64_t i = 0; i < 46; i++) {
        push(table, 1000 + i, 1);
    }
    assert_int_equal(106, coxi_table_rows(table));
    for (int i = 0; i < 1000; i++) {
        push(table, 0, 1);
    }
    assert_int_equal(30, coxi_table_rows(table));
    for (uint64_t i = 0; i < 30; i++) {
        assert_true(is_there(table, i));
    }
    coxi_table_free(table);
}

TEST(there_are_never_more_rows_than_rows_max_and_those_in_use_stay)
{
    enum { MAX = 100, HOT = 20 };
    struct coxi_variable v = describe(1, (struct coxi_lifecycle){.rows_max = MAX});
    struct coxi_table *table = new_table(&v);
    for (uint64_t i = 0; i < 300; i++) {
        push(table, 0, HOT);
        push(table, 1000 + i * 10, 10);
        assert_true(coxi_table_rows(table) <= MAX);
        assert_true(i < 20 || coxi_table_rows(table) == MAX);
    }
    push(table, 0, HOT);
    for (uint64_t i = 0; i < HOT; i++) {
        assert_true(moved(table, i) == -301);
    }
    push(table, 500, 64);
    assert_int_equal(MAX, coxi_table_rows(table));
    coxi_table_free(table);
}

TEST(the_memory_of_rows_that_went_is_used_again)
{
    struct coxi_variable v = describe(4, (struct coxi_lifecycle){.rows_max = 1000});
    struct coxi_table *table = new_table(&v);
    for (uint64_t i = 0; i < 40; i++) {
        push(table, i * 50, 50);
    }
    uint64_t bytes = coxi_table_bytes(table);
    for (uint64_t i = 0; i < 2000; i++) {
        push(table, 10000 + i * 50, 50);
    }
    assert_int_equal(bytes, coxi_table_bytes(table));
    assert_int_equal(1000, coxi_table_rows(table));
    coxi_table_free(table);
}

TEST(a_row_stays_from_when_it_is_resolved_until_it_is_updated)
{
    struct coxi_variable v =
        describe(1, (struct coxi_lifecycle){.evict_age = 5, .rows_max = 50});
    struct coxi_table *table = new_table(&v);
    struct work held;
    struct work dropped;
    begin(&held, COXI_OP_ADD, 0, 10);
    begin(&dropped, COXI_OP_ADD, 10, 10);
    assert_code(0, coxi_table_resolve(table, &held.change));
    assert_code(0, coxi_table_resolve(table, &dropped.change));
    for (uint64_t i = 0; i < 500; i++) {
        push(table, 1000 + i * 40, 40);
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(is_there(table, i));
    }
    coxi_table_update(table, &held.change);
    assert_true(moved(table, 3) == 1);
    coxi_table_release(table, &dropped.change);
    for (uint64_t i = 0; i < 500; i++) {
        push(table, 1000 + i * 40, 40);
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_false(is_there(table, i));
    }
    coxi_table_free(table);
}

/* ---- memory */

TEST(a_change_that_would_need_too_much_memory_makes_no_row)
{
    struct coxi_variable v = describe(4, (struct coxi_lifecycle){.rows_max = 30});
    struct coxi_memory memory = {.max_bytes = 0};
    struct coxi_table *table;
    struct work work;
    assert_code(0, coxi_table_new(&v, &memory, &table));
    push(table, 0, 40);
    assert_int_equal(coxi_table_bytes(table), memory.used_bytes);
    memory.max_bytes = memory.used_bytes + 100;
    begin(&work, COXI_OP_GRADIENT, 1000, 60);
    assert_code(COX_ENOMEM, coxi_table_resolve(table, &work.change));
    assert_error_names("50 rows of table 't'");
    assert_error_names("--memory-max");
    assert_int_equal(30, coxi_table_rows(table));
    assert_false(is_there(table, 1000));
    push(table, 2000, 10); /* those that went have left room */
    assert_int_equal(30, coxi_table_rows(table));
    coxi_table_free(table);
    assert_int_equal(0, memory.used_bytes);
}

TEST(memory_that_a_change_did_not_need_is_there_for_the_next)
{
    struct coxi_variable v = describe(4, (struct coxi_lifecycle){0});
    struct coxi_table *table = new_table(&v);
    struct work work;
    begin(&work, COXI_OP_GRADIENT, 0, 60);
    memset(work.keys, 0, sizeof(work.keys)); /* sixty times the same one */
    assert_code(0, coxi_table_resolve(table, &work.change));
    coxi_table_update(table, &work.change);
    assert_int_equal(1, coxi_table_rows(table));
    uint64_t bytes = coxi_table_bytes(table);
    push(table, 1, 59);
    assert_int_equal(bytes, coxi_table_bytes(table));
    push(table, 60, 1);
    assert_true(coxi_table_bytes(table) > bytes);
    coxi_table_free(table);
}

/* Whichever of the rows that it needs there is no room for. */
TEST(a_change_that_fails_leaves_no_row_pinned_and_none_that_can_be_told)
{
    enum { N = 40 };
    struct coxi_variable v = describe(1, (struct coxi_lifecycle){.rows_max = 20});
    for (uint32_t room = 0; room < N; room++) {
        struct coxi_table *table = new_table(&v);
        struct work work;
        push(table, 0, 20);
        table->rows.max = table->rows.used + room;
        begin(&work, COXI_OP_GRADIENT, 10, 10 + N);
        assert_code(COX_ELIMIT, coxi_table_resolve(table, &work.change));
        assert_error_names("table 't'");
        table->rows.max = UINT32_MAX;
        for (uint64_t i = 0; i < 20 + N; i++) {
            assert_true(!is_there(table, i) || moved(table, i) == (i < 20 ? -1 : 0));
        }
        push(table, 1000, 20); /* a pinned one would stay */
        push(table, 2000, 20);
        for (uint64_t i = 0; i < 20 + N; i++) {
            assert_false(is_there(table, i));
        }
        coxi_table_free(table);
    }
}

TEST(counters_of_admission_count_as_memory)
{
    struct coxi_variable v = describe(4, (struct coxi_lifecycle){.admit_count = 2});
    struct coxi_memory memory = {.max_bytes = 1 << 20};
    struct coxi_table *table;
    assert_code(COX_ENOMEM, coxi_table_new(&v, &memory, &table));
    assert_int_equal(0, memory.used_bytes);
}

/* ---- against a plain map, which follows the table where it may choose */

enum { KEYS = 400 };

struct plain_row {
    bool there;
    bool seen;
    uint32_t asked;
    uint64_t last;
    uint64_t made;
    uint32_t updates;
    float w[WIDE];
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
    coxi_initializer_row(&uniform, key, row->w, m->variable.shape[0]);
}

/* Whether a gradient makes a row, which the draw decides where there is one. */
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

/* What a change does to one key. A key whose row the draw has refused is not there, and
 * whether it has refused it is what is found after the rows were resolved. */
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
        switch (change->op) {
        case COXI_OP_GRADIENT:
            row->w[c] -= value;
            break;
        case COXI_OP_ADD:
            row->w[c] += value;
            break;
        case COXI_OP_ASSIGN:
            row->w[c] = value;
            break;
        case COXI_OP_MIN:
            row->w[c] = fminf(row->w[c], value);
            break;
        case COXI_OP_MAX:
            row->w[c] = fmaxf(row->w[c], value);
            break;
        case COXI_OP_RATE:
            break;
        }
    }
}

static void change_both(struct model *m)
{
    struct work work;
    size_t dim = m->variable.shape[0];
    bool there[CHANGE_MAX];
    uint64_t region = coxi_rand(&m->rng) % KEYS; /* some are in use for a while */
    begin(&work, (enum coxi_op)(coxi_rand(&m->rng) % 9), 0,
          coxi_rand(&m->rng) % (CHANGE_MAX + 1));
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
        float expected[WIDE];
        float found[WIDE];
        size_t bytes = m->variable.shape[0] * sizeof(float);
        coxi_initializer_row(&uniform, key, expected, m->variable.shape[0]);
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
        m.variable = describe(1 + (uint32_t)(seed * 5 % WIDE), lifecycles[seed % N]);
        m.table = new_table(&m.variable);
        for (int i = 0; i < 400; i++) {
            change_both(&m);
            compare(&m);
            compare_pull(&m);
        }
        coxi_table_free(m.table);
    }
}

/* Which rows go, too, is the same each time. */
TEST(the_same_changes_in_the_same_order_leave_the_same_rows)
{
    struct coxi_variable v = describe(
        1, (struct coxi_lifecycle){.admit_count = 2, .evict_age = 30, .rows_max = 150});
    struct coxi_table *tables[2] = {new_table(&v), new_table(&v)};
    for (int k = 0; k < 2; k++) {
        uint64_t rng = 5;
        for (int i = 0; i < 1000; i++) {
            push(tables[k], coxi_rand(&rng) % 1000, coxi_rand(&rng) % 40);
        }
    }
    assert_true(coxi_table_rows(tables[0]) > 50);
    for (uint64_t i = 0; i < 1100; i++) {
        assert_int_equal(is_there(tables[0], i), is_there(tables[1], i));
        assert_true(moved(tables[0], i) == moved(tables[1], i));
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
    struct work work;
    float found[WIDE];
    uint64_t rng = atomic_fetch_add(&storm->next_seed, 1);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t first = coxi_rand(&rng) % SPREAD;
        begin(&work, i % 3 == 0 ? COXI_OP_ADD : COXI_OP_GRADIENT, first, 8);
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
    struct coxi_variable v = describe(
        WIDE,
        (struct coxi_lifecycle){.admit_count = 2, .evict_age = 50, .rows_max = 200});
    v.initializer = (struct coxi_initializer){.kind = COXI_INIT_CONSTANT, .a = 1};
    struct storm storm = {.table = new_table(&v)};
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
    push(storm.table, 0, 1); /* what others found somebody at is done now */
    assert_code(0, visit_rows(storm.table, check_unpinned, NULL));
    coxi_table_counts(storm.table, &counts);
    assert_true(counts.rows <= 200 && counts.evicted > 0);
    assert_int_equal(counts.rows, counts.admitted - counts.evicted);
    coxi_table_free(storm.table);
}
