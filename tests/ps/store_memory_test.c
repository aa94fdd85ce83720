/* The store: commits beyond memory_max, pulls, and counters. */
#include "ps/store.h"

#include <string.h>

#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

static struct coxi_buffer no_versions; /* stays empty: none is asked for */

/* ---- memory */

TEST(store_makes_no_variable_that_memory_max_has_no_room_for)
{
    struct stock s;
    struct coxi_shard shard = {.count = 1 << 20};
    struct coxi_variable large = {.id = 1,
                                  .name = "large",
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {1 << 20},
                                  .shards = &shard,
                                  .n_shards = 1};
    stock_open(&s);
    coxi_store_set_memory_max(s.store, 4 << 20);
    (void)stock_dense(&s, "first", COX_F32, 1);
    struct coxi_create create = {s.session, 50, large, STOCK_INCARNATION};
    assert_code(COX_ENOMEM, coxi_store_create(s.store, &create));
    assert_error_names("variable 'large' would need 4194304 bytes more");
    assert_error_names("of the 4194304 bytes of --memory-max 4 are in use");
    create.closure = 51;
    create.variable.shape[0] = shard.count = (1 << 20) - 1;
    assert_code(0, coxi_store_create(s.store, &create));
    /* A run's variables are freed with it. */
    assert_code(0, coxi_store_release(s.store, &s.session));
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    create.variable.id = 0;
    create.variable.shape[0] = shard.count = 1 << 20;
    assert_code(0, coxi_store_create(s.store, &create));
    stock_close(&s);
}

TEST(store_makes_no_more_variables_than_a_run_may_have)
{
    struct stock s;
    struct coxi_shard shard = {.count = 4};
    const struct coxi_quota quota = {.variables_max = 2};
    struct coxi_variable third = {.id = 2,
                                  .name = "third",
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {4},
                                  .shards = &shard,
                                  .n_shards = 1};
    stock_open(&s);
    coxi_store_set_quota(s.store, &quota);
    (void)stock_dense(&s, "first", COX_F32, 1);
    (void)stock_dense(&s, "second", COX_F32, 1);
    struct coxi_create create = {s.session, 50, third, STOCK_INCARNATION};
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    assert_error_names("--run-variables-max");
    /* The next run begins with none. */
    assert_code(0, coxi_store_release(s.store, &s.session));
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    create.variable.id = 0;
    assert_code(0, coxi_store_create(s.store, &create));
    stock_close(&s);
}

TEST(store_applies_nothing_of_a_commit_that_memory_max_has_no_room_for)
{
    enum { N = 1000 };
    static uint64_t keys[N];
    static float values[N];
    struct stock s;
    struct stock_commit commit;
    const int64_t one = 1;
    stock_open(&s);
    uint32_t count = stock_dense(&s, "count", COX_I64, 1);
    uint32_t small = stock_table(&s, "small", 1);
    uint32_t table = stock_table(&s, "table", 1);
    coxi_store_set_memory_max(s.store, 20000);
    for (uint64_t i = 0; i < N; i++) {
        keys[i] = i;
    }
    stock_begin(&s, 50, &commit);
    stock_add(&commit, count, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    stock_add_rows(&commit, small, COXI_OP_ADD, keys, 10, values, 10 * sizeof(float));
    stock_add_rows(&commit, table, COXI_OP_ADD, keys, N, values, sizeof(values));
    assert_code(COX_ENOMEM, stock_commit(&s, &commit, NULL));
    assert_error_names("1000 rows of table 'table' would need");
    assert_int_equal(0, stock_number(&s, count));
    assert_int_equal(0, stock_counts(&s).commits);
    stock_begin(&s, 50, &commit);
    stock_add(&commit, count, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    stock_add_rows(&commit, table, COXI_OP_ADD, keys, N / 2, values,
                   N / 2 * sizeof(float));
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_int_equal(1, stock_number(&s, count));
    stock_close(&s);
}

/* If rows stayed pinned, they would never be evicted. */
TEST(store_lets_go_of_the_rows_of_a_commit_that_fails)
{
    struct stock s;
    struct stock_commit commit;
    const struct coxi_lifecycle lifecycle = {.rows_max = 1};
    const uint64_t keys[] = {1, 2};
    const float one = 1;
    stock_open(&s);
    uint32_t t = stock_table_of(&s, "t", 1, &lifecycle);
    for (size_t i = 0; i < 3; i++) {
        stock_begin(&s, 50 + i, &commit);
        stock_add_rows(&commit, t, COXI_OP_GRADIENT, &keys[i / 2], 1, &one,
                       sizeof(one));
        if (i == 1) {
            stock_add(&commit, 999, COXI_OP_ADD, 0, 1, &one, sizeof(one));
        }
        assert_code(i == 1 ? COX_ENOENT : 0, stock_commit(&s, &commit, NULL));
    }
    assert_int_equal(1, stock_counts(&s).rows);
    /* the row of key 1 was evicted, not that of key 2 */
    const float expected[] = {0, -1};
    struct coxi_pull_item item = {t, 0, 2, 0};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION, &item, 1, false, 0, 0};
    struct coxi_buffer found = {0};
    assert_code(
        0, coxi_store_pull(s.store, &pull, keys, sizeof(keys), &found, &no_versions));
    assert_memory_equal(expected, found.data, sizeof(expected));
    coxi_buffer_fini(&found);
    stock_close(&s);
}

/* ---- pulls */

static int pull_one(struct stock *s, uint32_t variable, uint64_t begin, uint64_t count,
                    size_t keys_len)
{
    static const uint64_t keys[4] = {1, 2, 3, 4};
    struct coxi_pull_item item = {variable, begin, count, 0};
    struct coxi_pull pull = {s->session, STOCK_INCARNATION, &item, 1, false, 0, 0};
    struct coxi_buffer answer = {0};
    int r = coxi_store_pull(s->store, &pull, keys, keys_len, &answer, &no_versions);
    coxi_buffer_fini(&answer);
    return r;
}

TEST(store_refuses_a_pull_of_what_is_not_there)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_F32, 4);
    uint32_t t = stock_table(&s, "t", 2);
    assert_code(COX_ENOENT, pull_one(&s, 99, 0, 1, 0));
    assert_code(COX_EINVAL, pull_one(&s, v, 0, 5, 0));
    assert_code(COX_EINVAL, pull_one(&s, v, 5, 0, 0));
    assert_code(COX_EINVAL, pull_one(&s, v, 1, UINT64_MAX, 0));
    assert_code(COX_EINVAL, pull_one(&s, t, 0, 4, 24));
    assert_error_names("'t'");
    assert_code(COX_EINVAL, pull_one(&s, t, 0, UINT64_MAX / 8, 32));
    assert_code(COX_EINVAL, pull_one(&s, t, 0, 3, 32)); /* one key too many */
    assert_code(0, pull_one(&s, v, 4, 0, 0));
    assert_code(0, pull_one(&s, t, 0, 4, 32));
    stock_close(&s);
}

TEST(store_answers_items_one_after_the_other_without_gaps)
{
    struct stock s;
    stock_open(&s);
    uint32_t bytes = stock_dense(&s, "bytes", COX_U8, 3);
    uint32_t t = stock_table(&s, "t", 2);
    uint32_t number = stock_dense(&s, "number", COX_I64, 1);
    struct stock_commit commit;
    const uint8_t abc[] = {1, 2, 3};
    const uint64_t key = 5;
    const float row[] = {6, 7};
    stock_begin(&s, 50, &commit);
    stock_add(&commit, bytes, COXI_OP_ASSIGN, 0, 3, abc, 3);
    stock_add_rows(&commit, t, COXI_OP_ASSIGN, &key, 1, row, sizeof(row));
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_code(0, stock_count(&s, number, 51, NULL));
    const uint64_t keys[] = {5, 9, 5};
    struct coxi_pull_item items[] = {
        {bytes, 0, 3, 0}, {t, 0, 2, 0}, {number, 0, 1, 0}, {t, 0, 1, 0}};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION, items, 4, false, 0, 0};
    struct coxi_buffer answer = {0};
    assert_code(
        0, coxi_store_pull(s.store, &pull, keys, sizeof(keys), &answer, &no_versions));
    const float rows[] = {6, 7, 0, 0};
    const int64_t one = 1;
    assert_int_equal(3 + 16 + 8 + 8, answer.len);
    assert_memory_equal(abc, answer.data, 3);
    assert_memory_equal(rows, answer.data + 3, 16);
    assert_memory_equal(&one, answer.data + 19, 8);
    assert_memory_equal(row, answer.data + 27, 8);
    coxi_buffer_fini(&answer);
    stock_close(&s);
}

/* ---- counts */

TEST(store_counts_what_it_holds_and_has_done_in_this_run)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 2);
    uint32_t t = stock_table(&s, "t", 2);
    const uint64_t keys[] = {1, 2, 1};
    const float values[6] = {0};
    struct stock_commit commit;
    stock_begin(&s, 10, &commit);
    stock_add_rows(&commit, t, COXI_OP_ADD, keys, 3, values, sizeof(values));
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_code(0, pull_one(&s, v, 0, 2, 0));
    struct coxi_counters found = stock_counts(&s);
    assert_int_equal(1, found.commits);
    assert_int_equal(1, found.pulls);
    assert_int_equal(2, found.rows);
    assert_true(found.bytes > 16 + 2 * (sizeof(uint64_t) + 8));
    assert_code(0, coxi_store_claim(s.store, &run2, &s.session));
    found = stock_counts(&s);
    assert_int_equal(0, found.commits);
    assert_int_equal(0, found.duplicates);
    assert_int_equal(0, found.pulls);
    assert_int_equal(0, found.rows);
    assert_int_equal(0, found.bytes);
    stock_close(&s);
}
