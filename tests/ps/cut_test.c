/*
 * Cuts of tables and dense variables hold one moment, although updates and loads change
 * the rows while the cut is read. Compares with plain copies; the changes come between
 * the steps of the reader.
 */
#include <string.h>

#include "common/initializer.h"
#include "common/rand.h"
#include "ps/table.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

/* ---- tables */

enum { DIM = 3, KEYS = 6000, PUSH = 200, WIDTH = DIM * 2 };

/* The expected content of a row in the cut. */
struct plain_row {
    bool there;
    bool seen;
    uint32_t updates;
    float w[WIDTH]; /* values and state */
};

struct subject {
    struct coxi_variable variable;
    struct coxi_table *table;
    struct coxi_table_cut *cut;
    struct coxi_cut_layout layout;
    uint8_t *room;
    uint64_t rng;
};

static void open_table(struct subject *s, uint64_t rows_max, uint64_t seed)
{
    *s = (struct subject){
        .variable = {.name = "t",
                     .kind = COXI_KIND_TABLE,
                     .dtype = COX_F32,
                     .rank = 1,
                     .shape = {DIM},
                     .initializer = {.kind = COXI_INIT_UNIFORM, .a = -1, .b = 1},
                     .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                   .learning_rate = 0.5F,
                                   .initial_accumulator = 1},
                     .lifecycle = {.rows_max = rows_max}},
        .rng = seed};
    assert_code(0, coxi_table_new(&s->variable, NULL, &s->table));
}

static void begin(struct subject *s)
{
    assert_code(0, coxi_table_cut_new(s->table, &s->cut));
    coxi_table_cut_begin(s->cut, false);
    s->layout = coxi_table_cut_layout(s->cut);
    s->room = malloc(s->layout.n_most * s->layout.stride);
}

static void end(struct subject *s)
{
    free(s->room);
    coxi_table_cut_end(s->cut);
    coxi_table_cut_free(s->cut);
}

/* Gradients for up to PUSH of the keys below `n_keys`. */
static void push(struct subject *s, uint64_t n_keys)
{
    uint64_t keys[PUSH];
    float values[PUSH * DIM];
    struct coxi_row *rows[PUSH];
    size_t n = 1 + coxi_rand(&s->rng) % PUSH;
    for (size_t i = 0; i < n; i++) {
        keys[i] = coxi_rand(&s->rng) % n_keys;
    }
    for (size_t i = 0; i < n * DIM; i++) {
        values[i] = (float)(coxi_rand(&s->rng) % 7) - 3;
    }
    const struct coxi_table_change change = {
        .op = COXI_OP_GRADIENT, .keys = keys, .n = n, .values = values, .rows = rows};
    assert_code(0, coxi_table_resolve(s->table, &change));
    coxi_table_update(s->table, &change);
}

/* Loads up to PUSH of the keys below `n_keys` from another checkpoint. */
static void load(struct subject *s, uint64_t n_keys)
{
    uint64_t keys[PUSH];
    uint64_t ages[PUSH];
    float values[PUSH * DIM];
    size_t n = 1 + coxi_rand(&s->rng) % PUSH;
    for (size_t i = 0; i < n; i++) {
        keys[i] = coxi_rand(&s->rng) % n_keys;
        ages[i] = coxi_rand(&s->rng) % 7;
    }
    for (size_t i = 0; i < n * DIM; i++) {
        values[i] = (float)(coxi_rand(&s->rng) % 7);
    }
    const struct coxi_table_rows rows = {.keys = keys,
                                         .values = values,
                                         .states = {values},
                                         .last = ages,
                                         .made = ages,
                                         .updates = ages,
                                         .n = n};
    assert_code(0, coxi_table_load(s->table, &rows));
}

static int note(void *arg, uint64_t key, const float *values, const float *state,
                const struct coxi_row_life *life)
{
    struct plain_row *row = (struct plain_row *)arg + key;
    assert_true(key < KEYS && !row->there);
    row->there = true;
    row->updates = life != NULL ? life->updates : 0;
    memcpy(row->w, values, DIM * sizeof(float));
    memcpy(row->w + DIM, state, DIM * sizeof(float));
    return 0;
}

static struct plain_row *copy_of(struct subject *s)
{
    struct plain_row *rows = calloc(KEYS, sizeof(*rows));
    assert_code(0, visit_rows(s->table, note, rows));
    return rows;
}

/* Asserts that the next rows of the cut are as expected; false: there are no more. */
static bool step(struct subject *s, struct plain_row *rows)
{
    size_t n = 0;
    int more = coxi_table_cut_next(s->cut, s->room, &n);
    assert_true(more >= 0);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = s->room + i * s->layout.stride;
        uint64_t key = *(const uint64_t *)(const void *)at;
        assert_true(key < KEYS && rows[key].there && !rows[key].seen);
        rows[key].seen = true;
        assert_memory_equal(rows[key].w, at + s->layout.values, DIM * sizeof(float));
        assert_memory_equal(rows[key].w + DIM, at + s->layout.state,
                            DIM * sizeof(float));
        if (s->layout.life > 0) {
            const struct coxi_row_life *life = (const void *)(at + s->layout.life);
            assert_int_equal(rows[key].updates, life->updates);
        }
    }
    return more == 1;
}

/* Reads a cut while rows change, are made and (with rows_max) are evicted. */
static void compare(uint64_t rows_max, uint64_t seed)
{
    struct subject s;
    open_table(&s, rows_max, seed);
    for (int i = 0; i < 10; i++) {
        push(&s, KEYS / 2);
    }
    for (int round = 0; round < 3; round++) {
        struct plain_row *rows = copy_of(&s);
        begin(&s);
        uint64_t n = coxi_table_cut_rows(s.cut);
        assert_int_equal(coxi_table_rows(s.table), n);
        do {
            for (uint64_t i = coxi_rand(&s.rng) % 12; i > 0; i--) {
                push(&s, KEYS);
            }
            if (coxi_rand(&s.rng) % 4 == 0) {
                load(&s, KEYS);
            }
        } while (step(&s, rows));
        for (size_t key = 0; key < KEYS; key++) {
            assert_int_equal(rows[key].there, rows[key].seen);
            n -= rows[key].seen ? 1 : 0;
        }
        assert_int_equal(0, n);
        end(&s);
        free(rows);
    }
    coxi_table_free(s.table);
}

TEST(cut_of_a_table_is_one_moment_while_rows_change_and_come)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        compare(0, seed);
    }
}

TEST(cut_of_a_table_is_one_moment_while_rows_go_and_their_memory_is_used_again)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        compare(500, seed);
    }
}

TEST(memory_for_what_changes_follows_what_changes)
{
    struct subject s;
    open_table(&s, 0, 1);
    for (int i = 0; i < 100; i++) {
        push(&s, KEYS);
    }
    begin(&s);
    assert_int_equal(0, coxi_table_cut_saved(s.cut));
    push(&s, 10);
    uint64_t few = coxi_table_cut_saved(s.cut);
    assert_true(few > 0);
    push(&s, 10);
    assert_int_equal(few, coxi_table_cut_saved(s.cut)); /* a row is copied once */
    for (size_t n = 1; coxi_table_cut_next(s.cut, s.room, &n) == 1;) {
    }
    push(&s, KEYS);
    assert_int_equal(few, coxi_table_cut_saved(s.cut)); /* and not after it was read */
    end(&s);
    push(&s, KEYS);
    coxi_table_free(s.table);
}

TEST(table_that_goes_takes_its_cut_with_it)
{
    struct subject s;
    open_table(&s, 0, 1);
    push(&s, KEYS);
    begin(&s);
    push(&s, KEYS);
    free(s.room);
    coxi_table_free(s.table);
}

/* ---- dense variables */

enum { ROWS = 700, COLUMNS = 50, ELEMENTS = ROWS * COLUMNS };

static void update_some(struct coxi_dense *dense, uint64_t *rng)
{
    static float values[ELEMENTS];
    uint64_t first = coxi_rand(rng) % ROWS;
    uint64_t n = 1 + coxi_rand(rng) % 40;
    n = n < ROWS - first ? n : ROWS - first;
    uint64_t way = coxi_rand(rng) % 3;
    for (size_t i = 0; i < n * COLUMNS; i++) {
        values[i] = (float)(coxi_rand(rng) % 7) - (way == 2 ? 0.0F : 3.0F);
    }
    if (way == 2) {
        coxi_dense_load(dense, first, n, values, (const float *const[]){values}, 5);
    } else {
        update_rows(dense, first, n, way == 0 ? COXI_OP_GRADIENT : COXI_OP_ADD, values);
    }
}

/* Reads a cut of a variable with `n_arrays` arrays of those lengths while it changes. */
static void compare_dense(const struct coxi_optimizer *optimizer, size_t n_arrays,
                          const size_t *bytes)
{
    static uint8_t room[COXI_DENSE_CUT_ROOM];
    struct coxi_shard shard = {0, 0, ROWS};
    const struct coxi_variable v = {.name = "d",
                                    .dtype = COX_F32,
                                    .rank = 2,
                                    .shape = {ROWS, COLUMNS},
                                    .shards = &shard,
                                    .n_shards = 1,
                                    .optimizer = *optimizer};
    struct coxi_dense *dense;
    uint64_t rng = 7;
    uint8_t *before[1 + COXI_STATES_MAX];
    assert_code(0, coxi_dense_new(&v, &shard, NULL, &dense));
    for (int round = 0; round < 10; round++) {
        struct coxi_dense_piece piece = {.n = 1};
        struct coxi_dense_cut *cut;
        size_t len[1 + COXI_STATES_MAX] = {0};
        update_some(dense, &rng);
        for (size_t i = 0; i < n_arrays; i++) {
            before[i] = read_array(dense, i, bytes[i]);
        }
        uint64_t step_before = coxi_dense_step(dense);
        assert_code(0, coxi_dense_cut_new(dense, &cut));
        coxi_dense_cut_begin(cut);
        while (piece.n > 0) {
            update_some(dense, &rng);
            assert_code(0, coxi_dense_cut_next(cut, room, &piece));
            for (size_t i = 0; i < piece.n; i++) {
                size_t array = piece.first + i;
                assert_memory_equal(before[array] + len[array], room + i * piece.bytes,
                                    piece.bytes);
                len[array] += piece.bytes;
            }
        }
        assert_int_equal(step_before, coxi_dense_cut_step(cut));
        assert_true(coxi_dense_cut_saved(cut) > 0);
        coxi_dense_cut_end(cut);
        coxi_dense_cut_free(cut);
        for (size_t i = 0; i < n_arrays; i++) {
            assert_int_equal(bytes[i], len[i]);
            free(before[i]);
        }
    }
    coxi_dense_free(dense);
}

TEST(cut_of_a_dense_variable_is_one_moment_with_the_state_of_each_element)
{
    const size_t all = ELEMENTS * sizeof(float);
    compare_dense(&(struct coxi_optimizer){.kind = COXI_OPTIMIZER_ADAGRAD,
                                           .learning_rate = 0.5F,
                                           .initial_accumulator = 1},
                  2, (const size_t[]){all, all});
}

TEST(cut_of_a_dense_variable_is_one_moment_with_the_state_of_each_row)
{
    compare_dense(&(struct coxi_optimizer){.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
                                           .learning_rate = 0.5F,
                                           .initial_accumulator = 1},
                  2, (const size_t[]){ELEMENTS * sizeof(float), ROWS * sizeof(float)});
}
