/* Loading pieces of another checkpoint: what they set, when they count, and which are
 * refused. */
#include <string.h>

#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { ROWS = 3000, DIM = 2 };

/* A table with Adagrad whose rows are evicted. */
static uint32_t table_with_life(struct stock *s, struct coxi_lifecycle lifecycle)
{
    struct coxi_variable v = {.name = "t",
                              .kind = COXI_KIND_TABLE,
                              .dtype = COX_F32,
                              .rank = 1,
                              .shape = {DIM},
                              .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                            .learning_rate = 1,
                                            .epsilon = 1e-10F},
                              .lifecycle = lifecycle};
    return stock_create(s, &v);
}

static struct coxi_load piece_of(const struct stock *s, uint32_t variable,
                                 uint64_t begin, uint64_t count)
{
    return (struct coxi_load){.session = s->session,
                              .incarnation = STOCK_INCARNATION,
                              .closure = 50,
                              .variable = variable,
                              .begin = begin,
                              .count = count};
}

static int put(struct stock *s, const struct coxi_load *load, const void *payload,
               size_t len)
{
    return coxi_store_load(s->store, load, payload, len);
}

TEST(a_piece_counts_until_the_last_one_has_come_and_never_again)
{
    struct stock s;
    const int64_t five = 5;
    const int64_t six = 6;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    struct coxi_load load = piece_of(&s, v, 0, 1);
    struct coxi_load last = load;
    last.last = true;
    assert_code(0, put(&s, &load, &five, sizeof(five)));
    assert_int_equal(5, stock_number(&s, v));
    assert_code(0, put(&s, &load, &six, sizeof(six)));
    assert_int_equal(6, stock_number(&s, v));
    assert_code(0, put(&s, &last, NULL, 0));
    assert_code(0, stock_count(&s, v, 51, NULL));
    assert_code(0, put(&s, &load, &six, sizeof(six))); /* a late copy */
    assert_code(0, put(&s, &last, NULL, 0));
    assert_int_equal(7, stock_number(&s, v));
    stock_close(&s);
}

TEST(a_piece_of_another_session_or_incarnation_is_refused)
{
    struct stock s;
    const int64_t five = 5;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    struct coxi_load load = piece_of(&s, v, 0, 1);
    load.session.token++;
    assert_code(COX_EFENCED, put(&s, &load, &five, sizeof(five)));
    load.session.token--;
    load.incarnation++;
    assert_code(COX_EPSLOST, put(&s, &load, &five, sizeof(five)));
    assert_int_equal(0, stock_number(&s, v));
    stock_close(&s);
}

TEST(a_piece_that_is_not_as_long_as_its_rows_is_refused)
{
    enum { LONGEST = 8 * 8 };
    struct stock s;
    const uint64_t bytes[LONGEST] = {0};
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_F32, 4);
    uint32_t t = table_with_life(&s, (struct coxi_lifecycle){.rows_max = 10});
    struct coxi_load dense = piece_of(&s, v, 0, 3);
    struct coxi_load rows = piece_of(&s, t, 0, 3);
    rows.state = true;
    rows.life = true;
    size_t right = 3 * (8 + 8 + 8 + 3 * 8);
    for (size_t len = 0; len <= right + 8; len += 8) {
        assert_code(len == 16 ? 0 : COX_EINVAL, put(&s, &dense, bytes, len));
        assert_code(len == right ? 0 : COX_EINVAL, put(&s, &rows, bytes, len));
    }
    dense.life = true;
    assert_code(COX_EINVAL, put(&s, &dense, bytes, 16));
    dense = piece_of(&s, v, 2, 3);
    assert_code(COX_EINVAL, put(&s, &dense, bytes, 16));
    dense = piece_of(&s, v, COXI_ROWS_LISTED, 1);
    assert_code(COX_EINVAL, put(&s, &dense, bytes, 16));
    rows = piece_of(&s, t, 0, UINT64_MAX / 2);
    assert_code(COX_EINVAL, put(&s, &rows, bytes, sizeof(bytes)));
    rows = piece_of(&s, 7, 0, 1);
    assert_code(COX_ENOENT, put(&s, &rows, bytes, sizeof(bytes)));
    stock_close(&s);
}

TEST(more_rows_than_a_piece_may_have_are_refused)
{
    enum { MANY = 4097 };
    struct stock s;
    stock_open(&s);
    uint32_t t = stock_table(&s, "t", 1);
    struct coxi_load load = piece_of(&s, t, 0, MANY);
    uint64_t *bytes = calloc(2 * MANY, sizeof(*bytes));
    assert_non_null(bytes);
    for (uint64_t i = 0; i < MANY; i++) {
        bytes[i] = i;
    }
    assert_code(COX_ELIMIT, put(&s, &load, bytes, 8 * (MANY + (MANY + 1) / 2)));
    load.count = MANY - 1;
    assert_code(0, put(&s, &load, bytes, 8 * (MANY - 1 + MANY / 2)));
    free(bytes);
    stock_close(&s);
}

TEST(who_has_a_copy_of_a_dense_variable_is_sent_what_was_loaded)
{
    struct stock s;
    const float values[2] = {3, 4};
    struct coxi_pull_item item = {.count = 2, .version = 1};
    struct coxi_pull pull = {.incarnation = STOCK_INCARNATION, .n_items = 1};
    struct coxi_pulling pulling;
    struct coxi_buffer versions = {0};
    stock_open(&s);
    item.variable = stock_dense(&s, "v", COX_F32, 2);
    pull.session = s.session;
    pull.items = &item;
    assert_code(0, coxi_store_pull_begin(s.store, &pull, NULL, 0, &versions, &pulling));
    memcpy(&item.version, versions.data, sizeof(item.version));
    assert_code(0, coxi_store_pull_begin(s.store, &pull, NULL, 0, &versions, &pulling));
    assert_int_equal(0, pulling.left);
    struct coxi_load load = piece_of(&s, (uint32_t)item.variable, 0, 2);
    assert_code(0, put(&s, &load, values, sizeof(values)));
    assert_code(0, coxi_store_pull_begin(s.store, &pull, NULL, 0, &versions, &pulling));
    assert_int_equal(sizeof(values), pulling.left);
    coxi_buffer_fini(&versions);
    stock_close(&s);
}

/* ---- ages */

struct row {
    uint64_t key;
    float values[DIM];
    float adagrad[DIM];
    uint64_t last;
    uint64_t made;
    uint64_t updates;
};

static void push(struct stock *s, uint32_t t, uint64_t closure, uint64_t key)
{
    const float ones[DIM] = {1, 1};
    struct stock_commit commit;
    stock_begin(s, closure, &commit);
    stock_add_rows(&commit, t, COXI_OP_GRADIENT, &key, 1, ones, sizeof(ones));
    assert_code(0, stock_commit(s, &commit, NULL));
}

static uint64_t rows_of(struct stock *s, uint32_t t)
{
    struct coxi_counts counts;
    coxi_store_counts(s->store, &(struct coxi_count){.table = coxi_maybe_of(t)},
                      &counts);
    return counts.table.rows;
}

/* Rows 1 and 2 were last updated 15 and 3 steps before the 100th of their checkpoint;
 * here `before` updates were made. Rows that are 20 steps old are evicted. */
static void assert_ages_are_kept(uint64_t before)
{
    enum { AGE = 20 };
    struct stock s;
    const struct row rows[] = {{1, {3, 4}, {5, 6}, 85, 60, 9},
                               {2, {3, 4}, {5, 6}, 97, 60, 9}};
    uint64_t closure = 100;
    stock_open(&s);
    uint32_t t = table_with_life(&s, (struct coxi_lifecycle){.evict_age = AGE});
    for (uint64_t i = 0; i < before; i++) {
        push(&s, t, closure++, 7);
    }
    uint64_t payload[2 * sizeof(struct row) / 8];
    memset(payload, 0, sizeof(payload));
    uint8_t *at = (uint8_t *)payload;
#define ADD(member)                                                                    \
    for (size_t i = 0; i < 2; i++) {                                                   \
        memcpy(at, &rows[i].member, sizeof(rows[i].member));                           \
        at += sizeof(rows[i].member);                                                  \
    }
    ADD(key)
    ADD(values)
    ADD(adagrad)
    ADD(last)
    ADD(made)
    ADD(updates)
#undef ADD
    struct coxi_load load = piece_of(&s, t, 0, 2);
    load.state = true;
    load.life = true;
    load.step = 100;
    assert_code(0, put(&s, &load, payload, sizeof(payload)));
    struct coxi_counts counts;
    coxi_store_counts(s.store, &(struct coxi_count){.table = coxi_maybe_of(t)},
                      &counts);
    assert_int_equal(before > 100 ? before : 100, counts.table.updates);
    uint64_t others = before > 0 ? 1 : 0;
    /* eviction visits all rows within a few updates */
    for (uint64_t i = 1; i <= AGE; i++) {
        push(&s, t, closure++, 7);
        others = 1;
        if (i == 4) {
            assert_int_equal(2 + others, rows_of(&s, t));
        } else if (i == 16) {
            assert_int_equal(1 + others, rows_of(&s, t));
        }
    }
    assert_int_equal(others, rows_of(&s, t));
    stock_close(&s);
}

TEST(rows_that_are_loaded_are_as_old_as_they_were)
{
    assert_ages_are_kept(0);
    assert_ages_are_kept(70);
    assert_ages_are_kept(150);
}
