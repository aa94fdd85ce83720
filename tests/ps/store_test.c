/* The store: claims, and commits that count once and as a whole. */
#include "ps/store.h"

#include <string.h>

#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

static struct coxi_buffer no_versions; /* stays empty: none is asked for */

/* ---- whose it is */

TEST(store_is_nobodys_at_first_and_after_its_release)
{
    struct stock s;
    struct coxi_session owner;
    struct coxi_store *fresh;
    assert_code(0, coxi_store_new(3, 1, &fresh));
    assert_false(coxi_store_owner(fresh, &owner));
    coxi_store_free(fresh);
    stock_open(&s);
    assert_true(coxi_store_owner(s.store, &owner));
    assert_int_equal(11, owner.token);
    assert_code(0, coxi_store_release(s.store, &s.session));
    assert_false(coxi_store_owner(s.store, &owner));
    assert_code(0, coxi_store_claim(s.store, &run2, NULL));
    stock_close(&s);
}

TEST(store_keeps_everything_when_its_owner_claims_it_again)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    assert_code(0, stock_count(&s, v, 10, NULL));
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    assert_int_equal(1, stock_number(&s, v));
    stock_close(&s);
}

TEST(store_is_taken_over_by_a_newer_generation_which_finds_it_empty)
{
    struct stock s;
    stock_open(&s);
    struct coxi_session old = s.session;
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    s.session = (struct coxi_session){.run = 1, .generation = 2, .token = 12};
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    assert_code(COX_ENOENT, stock_count(&s, v, 10, NULL));
    s.session = old;
    assert_code(COX_EFENCED, stock_count(&s, v, 10, NULL));
    assert_code(COX_EFENCED, coxi_store_claim(s.store, &old, &s.session));
    assert_code(COX_EFENCED, coxi_store_release(s.store, &old));
    stock_close(&s);
}

TEST(store_refuses_an_equal_generation_with_another_token)
{
    struct stock s;
    struct coxi_session owner;
    struct coxi_session twin;
    stock_open(&s);
    twin = s.session;
    twin.token++;
    assert_code(COX_EFENCED, coxi_store_claim(s.store, &twin, &s.session));
    assert_true(coxi_store_owner(s.store, &owner));
    assert_int_equal(s.session.token, owner.token);
    stock_close(&s);
}

TEST(store_is_busy_for_another_run_until_its_owner_is_gone)
{
    struct stock s;
    struct coxi_session owner;
    stock_open(&s);
    (void)stock_dense(&s, "v", COX_I64, 1);
    assert_code(COX_EBUSY, coxi_store_claim(s.store, &run2, NULL));
    assert_error_names("0000000000000001");
    assert_true(coxi_store_owner(s.store, &owner) && owner.run == 1);
    const struct coxi_session before = {.run = 9, .generation = 1, .token = 99};
    assert_code(COX_EBUSY, coxi_store_claim(s.store, &run2, &before)); /* not of this */
    assert_code(0, coxi_store_claim(s.store, &run2, &s.session));
    assert_true(coxi_store_owner(s.store, &owner) && owner.run == 2);
    assert_int_equal(0, stock_counts(&s).bytes);
    stock_close(&s);
}

TEST(store_refuses_everything_of_another_session)
{
    struct stock s;
    struct coxi_buffer answer = {0};
    struct coxi_snapshot_file done;
    bool duplicate = false;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    struct coxi_pull_item item = {v, 0, 1, 0};
    struct coxi_create create = {.session = run2, .closure = 9};
    struct coxi_watermark watermark = {run2, 5, STOCK_INCARNATION};
    struct coxi_snapshot snapshot = {
        .session = run2, .number = 1, .path = coxi_test_path("none")};
    struct coxi_commit commit = {.session = run2, .incarnation = STOCK_INCARNATION};
    struct coxi_pull pull = {run2, STOCK_INCARNATION, &item, 1, false, 0, 0};
    assert_code(COX_EFENCED, coxi_store_create(s.store, &create));
    assert_code(COX_EFENCED,
                coxi_store_pull(s.store, &pull, NULL, 0, &answer, &no_versions));
    assert_int_equal(0, answer.len);
    assert_code(COX_EFENCED,
                coxi_store_commit(s.store, &commit, NULL, 0, &no_versions, &duplicate));
    assert_code(COX_EFENCED, coxi_store_advance(s.store, &watermark));
    assert_code(COX_EFENCED, coxi_store_snapshot(s.store, &snapshot, &done));
    assert_code(COX_EFENCED, coxi_store_release(s.store, &run2));
    assert_code(0, stock_count(&s, v, 5, &duplicate));
    assert_false(duplicate); /* the watermark of the other did not move */
    coxi_buffer_fini(&answer);
    stock_close(&s);
}

/* ---- variables */

TEST(store_creates_once_for_a_closure_that_comes_twice)
{
    struct stock s;
    stock_open(&s);
    struct coxi_shard shard = {.count = 1};
    struct coxi_create create = {s.session,
                                 1,
                                 {.name = "v",
                                  .dtype = COX_I64,
                                  .rank = 1,
                                  .shape = {1},
                                  .shards = &shard,
                                  .n_shards = 1},
                                 STOCK_INCARNATION};
    assert_code(0, coxi_store_create(s.store, &create));
    assert_code(0, stock_count(&s, 0, 2, NULL));
    assert_code(0, coxi_store_create(s.store, &create));
    assert_int_equal(1, stock_number(&s, 0));
    create.closure = 3;
    assert_code(0,
                /* it exists already, made by another closure */
                coxi_store_create(s.store, &create));
    assert_int_equal(1, stock_number(&s, 0));
    create.variable.dtype = COX_F64;
    assert_code(COX_EEXIST, coxi_store_create(s.store, &create));
    assert_error_names("'v'");
    create.variable.dtype = COX_I64;
    create.variable.name = "w";
    assert_code(COX_EEXIST, coxi_store_create(s.store, &create));
    create.variable.id = 1; /* a creation that failed may be repeated under closure 3 */
    assert_code(0, coxi_store_create(s.store, &create));
    assert_int_equal(0, stock_number(&s, 1));
    assert_int_equal(1, stock_number(&s, 0));
    stock_close(&s);
}

TEST(store_takes_a_later_id_for_a_name_as_the_end_of_a_creation_that_failed)
{
    struct stock s;
    stock_open(&s);
    struct coxi_shard shard = {.count = 1};
    struct coxi_create create = {s.session,
                                 1,
                                 {.id = 1,
                                  .name = "v",
                                  .dtype = COX_I64,
                                  .rank = 1,
                                  .shape = {1},
                                  .shards = &shard,
                                  .n_shards = 1},
                                 STOCK_INCARNATION};
    assert_code(0, coxi_store_create(s.store, &create));
    create.closure = 2;
    /* a lower id for 'v': a late request of an earlier creation */
    create.variable.id = 0;
    assert_code(COX_EEXIST, coxi_store_create(s.store, &create));
    assert_error_names("'v'");
    create.closure = 3;
    create.variable.id = 2;
    create.variable.dtype = COX_F64;
    assert_code(0, coxi_store_create(s.store, &create));
    create.closure = 4;
    create.variable.id = 1;
    create.variable.name = "w";
    /* id 1 is free again */
    assert_code(0, coxi_store_create(s.store, &create));
    stock_close(&s);
}

TEST(store_refuses_a_malformed_variable_by_name)
{
    struct stock s;
    stock_open(&s);
    struct coxi_create create = {
        s.session,
        1,
        {.name = "crooked", .dtype = COX_I64, .rank = 1, .shape = {4}},
        STOCK_INCARNATION};
    assert_code(COX_EINVAL, coxi_store_create(s.store, &create));
    assert_error_names("crooked");
    create.variable.id = COXI_VARIABLES_MAX;
    create.variable.kind = COXI_KIND_TABLE;
    create.variable.dtype = COX_F32;
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    assert_int_equal(0, stock_counts(&s).bytes);
    stock_close(&s);
}

TEST(store_holds_only_the_shard_that_is_its_own)
{
    struct stock s;
    stock_open(&s);
    struct coxi_shard shards[] = {{1, 0, 4}, {0, 4, 3}};
    struct coxi_variable v = {.name = "v",
                              .dtype = COX_U8,
                              .rank = 2,
                              .shape = {7, 2},
                              .shards = shards,
                              .n_shards = 2};
    uint32_t id = stock_create(&s, &v);
    assert_int_equal(6, stock_counts(&s).bytes);
    struct stock_commit commit;
    const uint8_t values[] = {1, 2, 3, 4};
    stock_begin(&s, 9, &commit);
    stock_add(&commit, id, COXI_OP_ASSIGN, 5, 2, values, 4);
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_pull_item item = {id, 4, 3, 0};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION, &item, 1, false, 0, 0};
    struct coxi_buffer answer = {0};
    assert_code(0, coxi_store_pull(s.store, &pull, NULL, 0, &answer, &no_versions));
    const uint8_t expected[] = {0, 0, 1, 2, 3, 4};
    assert_int_equal(sizeof(expected), answer.len);
    assert_memory_equal(expected, answer.data, sizeof(expected));
    coxi_buffer_fini(&answer);
    stock_begin(&s, 10, &commit);
    stock_add(&commit, id, COXI_OP_ASSIGN, 3, 2, values, 4);
    assert_code(COX_EINVAL, stock_commit(&s, &commit, NULL));
    assert_error_names("ps 0");
    stock_close(&s);
}

/* ---- commits */

TEST(store_applies_a_commit_once_and_tells_the_duplicate)
{
    struct stock s;
    bool duplicate = true;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    assert_code(0, stock_count(&s, v, 10, &duplicate));
    assert_false(duplicate);
    assert_code(0, stock_count(&s, v, 10, &duplicate));
    assert_true(duplicate);
    assert_int_equal(1, stock_number(&s, v));
    assert_int_equal(1, stock_counts(&s).commits);
    assert_int_equal(1, stock_counts(&s).duplicates);
    stock_close(&s);
}

TEST(store_applies_each_segment_of_a_closure)
{
    struct stock s;
    bool duplicate = true;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    const int64_t one = 1;
    for (uint32_t segment = 0; segment < 3; segment++) {
        struct stock_commit commit;
        stock_begin(&s, 10, &commit);
        commit.head.segment = segment;
        stock_add(&commit, v, COXI_OP_ADD, 0, 1, &one, sizeof(one));
        assert_code(0, stock_commit(&s, &commit, &duplicate));
        assert_false(duplicate);
    }
    assert_int_equal(3, stock_number(&s, v));
    stock_close(&s);
}

TEST(store_acknowledges_what_the_watermark_has_passed_without_applying_it)
{
    struct stock s;
    bool duplicate = false;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    struct coxi_watermark watermark = {s.session, 100, STOCK_INCARNATION};
    assert_code(0, coxi_store_advance(s.store, &watermark));
    assert_code(0, stock_count(&s, v, 100, &duplicate));
    assert_true(duplicate);
    assert_code(0, stock_count(&s, v, 101, &duplicate));
    assert_false(duplicate);
    assert_int_equal(1, stock_number(&s, v));
    stock_close(&s);
}

TEST(store_refuses_a_commit_and_a_pull_meant_for_another_incarnation)
{
    struct stock s;
    struct coxi_buffer answer = {0};
    struct stock_commit commit;
    const int64_t one = 1;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    stock_begin(&s, 10, &commit);
    commit.head.incarnation++;
    stock_add(&commit, v, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    assert_code(COX_EPSLOST, stock_commit(&s, &commit, NULL));
    struct coxi_pull_item item = {v, 0, 1, 0};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION + 1, &item, 1, false, 0, 0};
    assert_code(COX_EPSLOST,
                coxi_store_pull(s.store, &pull, NULL, 0, &answer, &no_versions));
    coxi_buffer_fini(&answer);
    assert_int_equal(0, stock_number(&s, v));
    stock_close(&s);
}

TEST(store_applies_all_updates_of_a_commit_in_order)
{
    struct stock s;
    struct stock_commit commit;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_U8, 3);
    uint32_t t = stock_table(&s, "t", 1);
    stock_begin(&s, 10, &commit);
    for (uint8_t i = 1; i <= 20; i++) {
        const uint8_t values[] = {i, 1, (uint8_t)(i * 2)};
        const uint64_t key = i;
        const float gradient = -(float)i;
        if (i % 2 == 0) {
            stock_add(&commit, v, i < 10 ? COXI_OP_ADD : COXI_OP_ASSIGN, 0, 3, values,
                      3);
        } else {
            stock_add_rows(&commit, t, COXI_OP_GRADIENT, &key, 1, &gradient,
                           sizeof(gradient));
        }
    }
    assert_code(0, stock_commit(&s, &commit, NULL));
    uint8_t found[3];
    stock_pull(&s, v, 3, found, 3);
    assert_int_equal(20, found[0]);
    assert_int_equal(1, found[1]);
    assert_int_equal(40, found[2]);
    const uint64_t keys[] = {7, 8};
    struct coxi_pull_item item = {t, 0, 2, 0};
    struct coxi_pull pull = {s.session, STOCK_INCARNATION, &item, 1, false, 0, 0};
    struct coxi_buffer answer = {0};
    assert_code(
        0, coxi_store_pull(s.store, &pull, keys, sizeof(keys), &answer, &no_versions));
    const float rows[] = {7, 0};
    assert_memory_equal(rows, answer.data, sizeof(rows));
    coxi_buffer_fini(&answer);
    assert_int_equal(10, stock_counts(&s).rows);
    stock_close(&s);
}

/* What can be wrong with the second of two updates. */
enum fault {
    UNKNOWN_VARIABLE,
    SHORT_VALUES,
    NO_VALUES,
    SHORT_KEYS,
    LONG_PAYLOAD,
    OUT_OF_RANGE,
    COUNT_OVERFLOWS,
    TOO_MANY_KEYS,
    NO_OPTIMIZER,
    NO_ADDITION,
    UNKNOWN_OP,
    LIST_OUT_OF_RANGE,
    LIST_MISSING,
    N_FAULTS,
};

struct faulty {
    uint32_t dense;
    uint32_t half;
    uint32_t table;
};

static int add_fault(const struct faulty *to, enum fault fault,
                     struct stock_commit *commit)
{
    static const float values[16] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint64_t keys[] = {1, 2, 3, 4};
    const uint64_t huge = UINT64_MAX / 4;
    switch (fault) {
    case UNKNOWN_VARIABLE:
        stock_add(commit, 99, COXI_OP_ADD, 0, 4, values, 16);
        return COX_ENOENT;
    case SHORT_VALUES:
        stock_add(commit, to->dense, COXI_OP_ADD, 0, 4, values, 8);
        return COX_EINVAL;
    case NO_VALUES:
        stock_add_rows(commit, to->table, COXI_OP_ADD, keys, 4, values, 0);
        return COX_EINVAL;
    case SHORT_KEYS:
        stock_add_rows(commit, to->table, COXI_OP_ADD, keys, 1, values, 0);
        commit->updates[commit->head.n_updates - 1].count = 4;
        return COX_EINVAL;
    case LONG_PAYLOAD:
        stock_add(commit, to->dense, COXI_OP_ADD, 0, 4, values, 24);
        return COX_EINVAL;
    case OUT_OF_RANGE:
        stock_add(commit, to->dense, COXI_OP_ADD, 2, 4, values, 16);
        return COX_EINVAL;
    case COUNT_OVERFLOWS:
        stock_add(commit, to->dense, COXI_OP_ADD, 1, UINT64_MAX, values, 16);
        return COX_EINVAL;
    case TOO_MANY_KEYS:
        stock_add(commit, to->table, COXI_OP_ADD, 0, huge, values, 16);
        return COX_EINVAL;
    case NO_OPTIMIZER:
        stock_add(commit, to->dense, COXI_OP_GRADIENT, 0, 4, values, 16);
        return COX_EINVAL;
    case NO_ADDITION:
        stock_add(commit, to->half, COXI_OP_ADD, 0, 4, values, 8);
        return COX_EINVAL;
    case UNKNOWN_OP:
        stock_add(commit, to->dense, COXI_OP_MAX + 1, 0, 4, values, 16);
        return COX_EINVAL;
    case LIST_OUT_OF_RANGE:
        stock_add_rows(commit, to->dense, COXI_OP_ADD, keys, 4, values, 16);
        commit->updates[commit->head.n_updates - 1].begin = COXI_ROWS_LISTED;
        return COX_EINVAL;
    case LIST_MISSING:
        stock_add(commit, to->dense, COXI_OP_ADD, COXI_ROWS_LISTED, 4, values, 16);
        return COX_EINVAL;
    case N_FAULTS:
        break;
    }
    return 0;
}

TEST(store_applies_nothing_of_a_commit_with_one_bad_update)
{
    struct stock s;
    stock_open(&s);
    uint32_t good = stock_dense(&s, "good", COX_I64, 1);
    struct faulty to = {.dense = stock_dense(&s, "dense", COX_F32, 4),
                        .half = stock_dense(&s, "half", COX_BF16, 4),
                        .table = stock_table(&s, "table", 1)};
    const int64_t one = 1;
    bool duplicate = true;
    for (int fault = 0; fault < N_FAULTS; fault++) {
        struct stock_commit commit;
        stock_begin(&s, 50, &commit);
        stock_add(&commit, good, COXI_OP_ADD, 0, 1, &one, sizeof(one));
        int expected = add_fault(&to, (enum fault)fault, &commit);
        int r = stock_commit(&s, &commit, NULL);
        if (r != expected) {
            fail_msg("fault %d: %d, not %d", fault, r, expected);
        }
        assert_int_equal(0, stock_number(&s, good));
    }
    assert_int_equal(0, stock_counts(&s).commits);
    /* A correct commit of the same closure still counts. */
    assert_code(0, stock_count(&s, good, 50, &duplicate));
    assert_false(duplicate);
    assert_int_equal(1, stock_number(&s, good));
    stock_close(&s);
}
