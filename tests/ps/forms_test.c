/* All forms in which rows of dense variables and tables are pushed and pulled: ranges,
 * lists, narrow types, and "not changed". */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/floats.h"
#include "common/initializer.h"
#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { ROWS = 3000, COLUMNS = 3 }; /* one row in 341 lies in two blocks */

/* A store that holds rows 1000 to 3999 of one variable. */
struct subject {
    struct stock stock;
    struct coxi_variable variable;
    struct coxi_shard shard;
    uint32_t id;
    struct coxi_buffer answer;
    struct coxi_buffer versions;
};

static void subject_open(struct subject *s, const struct coxi_variable *like)
{
    *s = (struct subject){.variable = *like, .shard = {0, 1000, ROWS}};
    struct coxi_shard shards[] = {{1, 0, 1000}, s->shard, {2, 4000, 50}};
    stock_open(&s->stock);
    s->variable.name = "v";
    s->variable.dtype = COX_F32;
    s->variable.rank = 2;
    s->variable.shape[0] = 4050;
    s->variable.shape[1] = COLUMNS;
    s->variable.shards = shards;
    s->variable.n_shards = 3;
    s->id = stock_create(&s->stock, &s->variable);
}

static void subject_close(struct subject *s)
{
    coxi_buffer_fini(&s->answer);
    coxi_buffer_fini(&s->versions);
    stock_close(&s->stock);
}

static int pull(struct subject *s, struct coxi_pull_item item, const uint64_t *list,
                size_t n, bool narrow)
{
    struct coxi_pull pull = {
        s->stock.session, STOCK_INCARNATION, &item, 1, narrow, 0, 0};
    item.variable = s->id;
    s->answer.len = 0;
    return coxi_store_pull(s->stock.store, &pull, list, n * sizeof(*list), &s->answer,
                           &s->versions);
}

/* Commits one update of the listed rows, or (`rows` NULL) of a range. */
static void update(struct subject *s, enum coxi_op op, const uint64_t *rows,
                   uint64_t begin, size_t n, const void *values, size_t bytes)
{
    struct stock_commit commit;
    stock_begin(&s->stock, ++s->stock.closure, &commit);
    if (rows != NULL) {
        stock_add_rows(&commit, s->id, op, rows, n, values, bytes);
        commit.updates[0].begin = COXI_ROWS_LISTED;
    } else {
        stock_add(&commit, s->id, op, begin, n, values, bytes);
    }
    assert_code(0, stock_commit(&s->stock, &commit, NULL));
}

static float value_of(uint64_t row, size_t column)
{
    return (float)(row * COLUMNS + column);
}

static void fill(struct subject *s)
{
    static float values[ROWS][COLUMNS];
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        values[i / COLUMNS][i % COLUMNS] = value_of(1000 + i / COLUMNS, i % COLUMNS);
    }
    update(s, COXI_OP_ASSIGN, NULL, 1000, ROWS, values, sizeof(values));
}

static const float *answer_row(const struct subject *s, size_t i)
{
    return (const float *)(const void *)s->answer.data + i * COLUMNS;
}

/* ---- lists */

TEST(rows_that_are_listed_are_read_and_updated_where_they_are)
{
    enum { N = 2000 };
    static uint64_t list[N];
    static float ones[N][COLUMNS];
    struct subject s;
    subject_open(&s, &(struct coxi_variable){0});
    fill(&s);
    for (size_t i = 0; i < N; i++) {
        list[i] = 1000 + i * 7 % ROWS;
        ones[i][0] = ones[i][1] = ones[i][2] = 1;
    }
    assert_code(0,
                pull(&s, (struct coxi_pull_item){.begin = COXI_ROWS_LISTED, .count = N},
                     list, N, false));
    assert_int_equal(sizeof(ones), s.answer.len);
    for (size_t i = 0; i < N; i++) {
        assert_true(answer_row(&s, i)[2] == value_of(list[i], 2));
    }
    update(&s, COXI_OP_ADD, list, 0, N, ones, sizeof(ones));
    assert_code(0, pull(&s, (struct coxi_pull_item){.begin = 1000, .count = ROWS}, NULL,
                        0, false));
    for (size_t i = 0; i < N; i++) {
        uint64_t row = list[i];
        assert_true(answer_row(&s, row - 1000)[1] == value_of(row, 1) + 1);
    }
    /* row 1001 was not listed */
    assert_true(answer_row(&s, 1)[1] == value_of(1001, 1));
    subject_close(&s);
}

TEST(rows_of_other_ps_cannot_be_listed_here)
{
    const uint64_t lists[][2] = {{1000, 999}, {4000, 1000}, {1000, UINT64_MAX}};
    struct subject s;
    subject_open(&s, &(struct coxi_variable){0});
    for (size_t i = 0; i < 3; i++) {
        const struct coxi_pull_item item = {.begin = COXI_ROWS_LISTED, .count = 2};
        assert_code(COX_EINVAL, pull(&s, item, lists[i], 2, false));
        assert_error_names("'v'");
    }
    const struct coxi_pull_item long_item = {.begin = COXI_ROWS_LISTED, .count = 3};
    assert_code(COX_EINVAL, pull(&s, long_item, lists[0], 1, false));
    assert_error_names("missing");
    const struct coxi_pull_item range = {.begin = 1000, .count = 1};
    assert_code(COX_EINVAL, pull(&s, range, lists[0], 1, false)); /* there is no list */
    subject_close(&s);
}

/* ---- optimizers on parts of a variable */

static void train_parts(const struct coxi_optimizer *optimizer)
{
    static const uint64_t list[] = {1500, 1001, 3999};
    static const float gradient[3][COLUMNS] = {{1, -2, 3}, {0.5F, 4, -1}, {2, 2, -7}};
    const struct coxi_variable like = {.optimizer = *optimizer};
    float apart[3][COLUMNS];
    float others[COLUMNS];
    struct subject s;
    /* Once with all rows in one list, once with one update for each row: with these
     * rules the results are equal. */
    for (int listed = 0; listed < 2; listed++) {
        subject_open(&s, &like);
        fill(&s);
        for (int round = 0; round < 3; round++) {
            if (listed != 0) {
                update(&s, COXI_OP_GRADIENT, list, 0, 3, gradient, sizeof(gradient));
            }
            for (size_t i = 0; listed == 0 && i < 3; i++) {
                update(&s, COXI_OP_GRADIENT, NULL, list[i], 1, gradient[i],
                       sizeof(gradient[i]));
            }
        }
        const struct coxi_pull_item item = {.begin = COXI_ROWS_LISTED, .count = 3};
        assert_code(0, pull(&s, item, list, 3, false));
        if (listed == 0) {
            memcpy(apart, s.answer.data, sizeof(apart));
        }
        assert_memory_equal(apart, s.answer.data, sizeof(apart));
        assert_true(apart[0][0] != value_of(1500, 0));
        const struct coxi_pull_item next = {.begin = 1501, .count = 1};
        assert_code(0, pull(&s, next, NULL, 0, false));
        memcpy(others, s.answer.data, sizeof(others));
        assert_true(others[1] == value_of(1501, 1));
        subject_close(&s);
    }
}

TEST(optimizers_move_the_rows_of_a_list_alone)
{
    train_parts(
        &(struct coxi_optimizer){.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F});
    train_parts(&(struct coxi_optimizer){
        .kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 0.5F, .epsilon = 1e-6F});
    train_parts(&(struct coxi_optimizer){.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
                                         .learning_rate = 0.5F,
                                         .epsilon = 1e-6F});
    train_parts(&(struct coxi_optimizer){
        .kind = COXI_OPTIMIZER_MOMENTUM, .learning_rate = 0.5F, .momentum = 0.9F});
}

/* ---- narrow */

TEST(gradients_that_come_narrow_do_what_they_do_wide)
{
    static const uint32_t kinds[] = {COXI_OPTIMIZER_SGD, COXI_OPTIMIZER_ADAGRAD,
                                     COXI_OPTIMIZER_ROWWISE_ADAGRAD};
    static float gradient[ROWS * COLUMNS];
    static uint16_t narrow[ROWS * COLUMNS];
    static float expected[ROWS * COLUMNS];
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        gradient[i] = (float)(i % 255) - 100; /* all of them BF16 and F16 */
    }
    for (size_t k = 0; k < 9; k++) {
        struct coxi_variable like = {.optimizer = {.kind = kinds[k / 3],
                                                   .learning_rate = 0.5F,
                                                   .clip_norm = 100}};
        like.wire_dtype = k % 3 == 0 ? 0 : k % 3 == 1 ? COX_BF16 : COX_F16;
        struct subject s;
        subject_open(&s, &like);
        const void *values = gradient;
        if (like.wire_dtype != 0) {
            coxi_floats_narrow(like.wire_dtype, gradient, (size_t)ROWS * COLUMNS,
                               narrow);
            values = narrow;
        }
        update(&s, COXI_OP_GRADIENT, NULL, 1000, ROWS, values,
               like.wire_dtype == 0 ? sizeof(gradient) : sizeof(narrow));
        const struct coxi_pull_item item = {.begin = 1000, .count = ROWS};
        assert_code(0, pull(&s, item, NULL, 0, false));
        assert_int_equal(sizeof(expected), s.answer.len);
        if (k % 3 == 0) {
            memcpy(expected, s.answer.data, sizeof(expected));
        }
        assert_memory_equal(expected, s.answer.data, sizeof(expected));
        subject_close(&s);
    }
}

TEST(pulls_are_narrow_where_both_sides_want_it)
{
    static uint16_t expected[ROWS * COLUMNS];
    for (uint32_t wire = 0; wire < 2; wire++) {
        const struct coxi_variable like = {.wire_dtype = wire == 0 ? 0 : COX_BF16};
        const struct coxi_pull_item item = {.begin = 1000, .count = ROWS};
        struct subject s;
        subject_open(&s, &like);
        fill(&s);
        assert_code(0, pull(&s, item, NULL, 0, false));
        assert_int_equal(sizeof(float) * ROWS * COLUMNS, s.answer.len);
        coxi_floats_narrow(COX_BF16, s.answer.data, (size_t)ROWS * COLUMNS, expected);
        assert_code(0, pull(&s, item, NULL, 0, true));
        if (wire == 0) {
            assert_int_equal(sizeof(float) * ROWS * COLUMNS, s.answer.len);
        } else {
            assert_int_equal(sizeof(expected), s.answer.len);
            assert_memory_equal(expected, s.answer.data, sizeof(expected));
        }
        subject_close(&s);
    }
}

TEST(rows_of_tables_are_narrow_both_ways)
{
    enum { DIM = 100, N = 300 };
    static uint64_t keys[N];
    static float rows[N * DIM];
    static uint16_t narrow[N * DIM];
    struct stock s;
    stock_open(&s);
    struct coxi_variable table = {
        .name = "t",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {DIM},
        .wire_dtype = COX_F16,
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1}};
    uint32_t id = stock_create(&s, &table);
    for (size_t i = 0; i < (size_t)N * DIM; i++) {
        keys[i / DIM] = i / DIM * 3;
        rows[i] = (float)(i % 1000 + 1) / 4;
    }
    coxi_floats_narrow(COX_F16, rows, (size_t)N * DIM, narrow);
    struct stock_commit commit;
    stock_begin(&s, 10, &commit);
    stock_add_rows(&commit, id, COXI_OP_GRADIENT, keys, N, rows, 0);
    assert_code(0, coxi_buffer_append(&commit.payload, narrow, sizeof(narrow)));
    assert_code(0, stock_commit(&s, &commit, NULL));
    const struct coxi_pull_item item = {.variable = id, .count = N};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION, &item, 1, true, 0, 0};
    struct coxi_buffer answer = {0};
    struct coxi_buffer versions = {0};
    assert_code(
        0, coxi_store_pull(s.store, &pull, keys, sizeof(keys), &answer, &versions));
    assert_int_equal(sizeof(narrow), answer.len);
    for (size_t i = 0; i < (size_t)N * DIM; i++) {
        narrow[i] ^= 0x8000; /* flips the sign: the values are 0 - gradient */
    }
    assert_memory_equal(narrow, answer.data, sizeof(narrow));
    coxi_buffer_fini(&answer);
    coxi_buffer_fini(&versions);
    stock_close(&s);
}

/* ---- versions */

static uint64_t version(const struct subject *s)
{
    assert_int_equal(sizeof(uint64_t), s->versions.len);
    return *(const uint64_t *)(const void *)s->versions.data;
}

TEST(pull_that_names_the_version_there_is_gets_no_values)
{
    struct subject s;
    struct coxi_pull_item item = {.begin = 1000, .count = ROWS, .version = 1};
    const size_t all = sizeof(float) * ROWS * COLUMNS;
    const float row[COLUMNS] = {0};
    subject_open(&s, &(struct coxi_variable){0});
    assert_code(0, pull(&s, item, NULL, 0, false));
    assert_int_equal(all, s.answer.len);
    item.version = version(&s);
    assert_true(item.version > 1);
    assert_code(0, pull(&s, item, NULL, 0, false));
    assert_int_equal(0, s.answer.len);
    assert_int_equal(item.version, version(&s));
    for (enum coxi_op op = COXI_OP_ADD; op <= COXI_OP_MAX; op++) {
        update(&s, op, NULL, 2000, 1, row, sizeof(row));
        assert_code(0, pull(&s, item, NULL, 0, false));
        assert_int_equal(all, s.answer.len);
        assert_true(version(&s) > item.version);
        item.version = version(&s);
        assert_code(0, pull(&s, item, NULL, 0, false));
        assert_int_equal(0, s.answer.len);
    }
    item.version = 0;
    assert_code(0, pull(&s, item, NULL, 0, false));
    assert_int_equal(all, s.answer.len);
    assert_int_equal(0, s.versions.len);
    subject_close(&s);
}

/* ---- threads */

enum { UPDATES = 500 };

struct storm {
    struct subject subject;
    atomic_uint_least64_t closure;
    atomic_uint n_failed;
    atomic_uint n_writing;
};

static float ones[ROWS * COLUMNS];

static int add_ones(struct storm *storm, struct coxi_buffer *scratch)
{
    const struct coxi_update head = {storm->subject.id, COXI_OP_ADD, 1000, ROWS};
    struct coxi_commit commit = {.session = storm->subject.stock.session,
                                 .incarnation = STOCK_INCARNATION,
                                 .closure = atomic_fetch_add(&storm->closure, 1),
                                 .updates = &head,
                                 .n_updates = 1};
    bool duplicate = false;
    return coxi_store_commit(storm->subject.stock.store, &commit, ones, sizeof(ones),
                             scratch, &duplicate);
}

static void *write_all(void *arg)
{
    struct storm *storm = arg;
    struct coxi_buffer scratch = {0};
    for (int i = 0; i < UPDATES; i++) {
        atomic_fetch_add(&storm->n_failed, add_ones(storm, &scratch) != 0);
    }
    atomic_fetch_sub(&storm->n_writing, 1);
    coxi_buffer_fini(&scratch);
    return NULL;
}

/* Pulls like a worker that keeps a copy; asserts that the copy has every update that
 * its version counts. */
static void refresh(struct subject *s, uint64_t *held, float *copy)
{
    const struct coxi_pull_item item = {.begin = 1000, .count = ROWS, .version = *held};
    assert_code(0, pull(s, item, NULL, 0, false));
    *held = version(s);
    if (s->answer.len > 0) {
        memcpy(copy, s->answer.data, s->answer.len);
    }
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        assert_true(copy[i] >= (float)(*held - 2)); /* versions start at 2 */
    }
}

TEST(copies_of_the_version_there_is_are_never_older_than_it)
{
    static struct storm storm;
    static float copy[ROWS * COLUMNS];
    pthread_t threads[2];
    uint64_t held = 1;
    subject_open(&storm.subject, &(struct coxi_variable){0});
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        ones[i] = 1;
    }
    atomic_store(&storm.closure, 100);
    atomic_store(&storm.n_writing, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, write_all, &storm));
    }
    while (atomic_load(&storm.n_writing) > 0) {
        refresh(&storm.subject, &held, copy);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, atomic_load(&storm.n_failed));
    refresh(&storm.subject, &held, copy);
    assert_int_equal(2 + 2 * UPDATES, held);
    subject_close(&storm.subject);
}
