/* Rounds on a ps: commits that wait, and the end that applies those which count. */
#include <math.h>
#include <string.h>

#include "coxswain/round.h"
#include "coxswain/types.h"
#include "net/message.h"
#include "ps/memory.h"
#include "tests/ps/round_stock.h"
#include "tests/test.h"

TEST(round_is_not_seen_before_its_end_and_then_as_one_step_of_its_mean)
{
    struct stock s;
    float values[2];
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_MOMENTUM, 1, 0, 2);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        const float gradient[2] = {(float)i, -(float)i};
        assert_code(0, push(&s, FIRST + i, 1, v, gradient, 2, NULL));
    }
    stock_pull(&s, v, 2, values, sizeof(values));
    assert_true(values[0] == 0 && values[1] == 0);
    end_all(&s, 1.0F / MEMBERS);
    stock_pull(&s, v, 2, values, sizeof(values));
    assert_true(values[0] == -1.5F && values[1] == 1.5F);
    /* one step of the momentum: the next one has 0.9 of it */
    struct stock_commit next;
    stock_begin(&s, ROUND + 1, &next);
    stock_add(&next, v, COXI_OP_GRADIENT, 0, 2, (const float[2]){0, 0}, 8);
    assert_code(0, stock_commit(&s, &next, NULL));
    stock_pull(&s, v, 2, values, sizeof(values));
    assert_true(fabsf(values[0] + 1.5F * 1.9F) < 1e-6F);
    stock_close(&s);
}

TEST(round_has_the_same_bits_in_whatever_order_its_commits_come)
{
    static const uint8_t orders[][MEMBERS] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}};
    /* numbers whose sum depends on their order */
    static const float gradients[MEMBERS] = {1e8F, 1, -1e8F, 3.1415927F};
    float first[2] = {0};
    for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]); k++) {
        struct stock s;
        float found[2];
        stock_open(&s);
        uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, .1F, 0, 1);
        uint32_t t = stock_table(&s, "t", 1);
        for (size_t i = 0; i < MEMBERS; i++) {
            uint8_t who = orders[k][i];
            const uint64_t keys[2] = {7, 1000 + who};
            const float rows[2] = {gradients[who], 1};
            struct stock_commit commit;
            begin(&s, FIRST + who, 1, &commit);
            stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &gradients[who], 4);
            commit.updates[commit.head.n_updates++] =
                (struct coxi_update){t, COXI_OP_GRADIENT, COXI_ROWS_LISTED, 2};
            assert_code(0, coxi_buffer_append(&commit.payload, keys, sizeof(keys)));
            assert_code(0, coxi_buffer_append(&commit.payload, rows, sizeof(rows)));
            assert_code(0, stock_commit(&s, &commit, NULL));
        }
        end_all(&s, .25F);
        stock_pull(&s, v, 1, &found[0], 4);
        (void)stock_pull_row(&s, t, 7, &found[1], sizeof(float));
        if (k == 0) {
            memcpy(first, found, sizeof(first));
            assert_true(found[0] != 0 && found[1] != 0);
        }
        assert_memory_equal(first, found, sizeof(first));
        float one;
        (void)stock_pull_row(&s, t, 1002, &one, sizeof(one));
        assert_true(one == -.25F);
        stock_close(&s);
    }
}

TEST(round_takes_each_commit_once_and_none_after_its_end)
{
    struct stock s;
    float value;
    bool duplicate;
    struct coxi_memory memory;
    coxi_memory_init(&memory);
    stock_open(&s);
    coxi_store_count_in(s.store, &memory);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    uint64_t before = memory.used_bytes;
    for (uint64_t i = 0; i < MEMBERS; i++) {
        const float one = 1;
        assert_code(0, push(&s, FIRST + i, 1, v, &one, 1, &duplicate));
        assert_false(duplicate);
        assert_code(0, push(&s, FIRST + i, 1, v, &one, 1, &duplicate));
        assert_true(duplicate);
    }
    assert_true(memory.used_bytes > before);
    end_all(&s, 1);
    const struct coxi_round_part again[MEMBERS] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    assert_code(0, end_with(&s, again, MEMBERS, &duplicate));
    assert_true(duplicate);
    const float late = 5;
    assert_code(0, push(&s, FIRST, 2, v, &late, 1, &duplicate));
    assert_true(duplicate);
    assert_int_equal(before, memory.used_bytes);
    stock_pull(&s, v, 1, &value, 4);
    assert_true(value == -4);
    stock_close(&s);
}

TEST(round_counts_the_attempts_that_its_end_names)
{
    static const struct {
        uint32_t attempt;
        uint32_t n_waiting;
        float value;
    } cases[] = {{0, 1, -7}, {1, 2, -8}, {2, 2, -17}, {COXI_ATTEMPT_LATEST, 1, -17}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct stock s;
        float value;
        stock_open(&s);
        uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
        const float gradients[] = {10, 1, 7};
        assert_code(0, push(&s, FIRST, 2, v, &gradients[0], 1, NULL));
        assert_code(0, push(&s, FIRST, 1, v, &gradients[1], 1, NULL));
        assert_code(0, push(&s, FIRST + 1, 1, v, &gradients[2], 1, NULL));
        const struct coxi_round_part parts[MEMBERS] = {{cases[i].attempt, 1}, {1, 1}};
        assert_code(0, end_with(&s, parts, cases[i].n_waiting, NULL));
        stock_pull(&s, v, 1, &value, 4);
        assert_true(value == cases[i].value);
        stock_close(&s);
    }
}

TEST(round_is_not_ended_while_more_or_fewer_closures_wait_than_its_end_says)
{
    struct stock s;
    float value;
    const float one = 1;
    const struct coxi_round_part parts[MEMBERS] = {{1, 1}, {2, 1}, {0, 1}, {1, 1}};
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    assert_code(COX_EDIVERGED, end_with(&s, parts, 1, NULL));
    assert_code(0, push(&s, FIRST, 1, v, &one, 1, NULL));
    assert_code(0, push(&s, FIRST + 1, 1, v, &one, 1, NULL)); /* another attempt */
    assert_code(0, push(&s, FIRST + 2, 1, v, &one, 1, NULL)); /* does not count */
    assert_code(COX_EDIVERGED, end_with(&s, parts, 2, NULL));
    assert_error_names("2 closures of round 105 have touched ps 0");
    assert_code(COX_EDIVERGED, end_with(&s, parts, 0, NULL));
    assert_code(0, push(&s, FIRST + 1, 2, v, &one, 1, NULL));
    stock_pull(&s, v, 1, &value, 4);
    assert_true(value == 0);
    assert_code(0, end_with(&s, parts, 2, NULL));
    stock_pull(&s, v, 1, &value, 4);
    assert_true(value == -2);
    stock_close(&s);
}

TEST(round_applies_what_is_no_gradient_in_the_order_of_its_closures)
{
    struct stock s;
    stock_open(&s);
    uint32_t n = stock_dense(&s, "n", COX_I64, 1);
    for (uint64_t i = MEMBERS; i-- > 0;) {
        const int64_t number = (int64_t)(10 * i);
        const int64_t one = 1;
        struct stock_commit commit;
        begin(&s, FIRST + i, 1, &commit);
        stock_add(&commit, n, COXI_OP_ASSIGN, 0, 1, &number, 8);
        stock_add(&commit, n, COXI_OP_ADD, 0, 1, &one, 8);
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    assert_int_equal(0, stock_number(&s, n));
    end_all(&s, 1);
    assert_int_equal(10 * (MEMBERS - 1) + 1, stock_number(&s, n));
    stock_close(&s);
}

TEST(round_adds_up_whole_gradients_and_listed_rows)
{
    struct stock s;
    float values[4];
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 4);
    const float whole[4] = {1, 2, 3, 4};
    assert_code(0, push(&s, FIRST, 1, v, whole, 4, NULL));
    assert_code(0, push(&s, FIRST + 1, 1, v, whole, 2, NULL));
    const uint64_t rows[3] = {3, 0, 3};
    const float some[3] = {100, 10, 1000};
    struct stock_commit commit;
    begin(&s, FIRST + 2, 1, &commit);
    commit.updates[commit.head.n_updates++] =
        (struct coxi_update){v, COXI_OP_GRADIENT, COXI_ROWS_LISTED, 3};
    assert_code(0, coxi_buffer_append(&commit.payload, rows, sizeof(rows)));
    assert_code(0, coxi_buffer_append(&commit.payload, some, sizeof(some)));
    assert_code(0, stock_commit(&s, &commit, NULL));
    end_these(&s, 1, 3);
    stock_pull(&s, v, 4, values, sizeof(values));
    assert_true(values[0] == -12 && values[1] == -4 && values[2] == -3 &&
                values[3] == -1104);
    stock_close(&s);
}

TEST(round_takes_gradients_that_are_narrow_or_scaled)
{
    struct stock s;
    float values[2];
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, COX_BF16, 2);
    const uint16_t narrow[2] = {0x3f80, 0x4000}; /* 1 and 2 */
    for (uint64_t i = 0; i < MEMBERS; i++) {
        struct stock_commit commit;
        begin(&s, FIRST + i, 1, &commit);
        commit.head.loss_scale = i == 0 ? 0 : 8;
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 2, narrow, sizeof(narrow));
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    end_all(&s, 1);
    stock_pull(&s, v, 2, values, sizeof(values));
    assert_true(values[0] == -(1 + 3.0F / 8) && values[1] == -(2 + 6.0F / 8));
    stock_close(&s);
}

TEST(round_adds_up_the_segments_of_a_closure)
{
    struct stock s;
    float value;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    for (uint32_t segment = 0; segment < 3; segment++) {
        const float gradient = (float)(1 << segment);
        struct stock_commit commit;
        begin(&s, FIRST, 1, &commit);
        commit.head.segment = segment;
        commit.head.last = segment == 2;
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &gradient, 4);
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    end_these(&s, 1, 1);
    stock_pull(&s, v, 1, &value, 4);
    assert_true(value == -7);
    stock_close(&s);
}

TEST(round_that_has_not_ended_is_in_no_snapshot_and_ends_with_its_run)
{
    struct stock s;
    struct coxi_snapshot_file file;
    struct coxi_memory memory;
    coxi_memory_init(&memory);
    stock_open(&s);
    coxi_store_count_in(s.store, &memory);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    const float one = 1;
    assert_code(0, push(&s, FIRST, 1, v, &one, 1, NULL));
    struct coxi_snapshot snapshot = {.session = s.session,
                                     .number = 1,
                                     .path = coxi_test_path("round"),
                                     .incarnation = STOCK_INCARNATION};
    assert_code(0, coxi_store_snapshot(s.store, &snapshot, &file));
    for (size_t i = 0; i < file.applied.n_intervals; i++) {
        assert_true(file.applied.intervals[i].last < FIRST);
    }
    coxi_applied_list_fini(&file.applied);
    s.session.generation++;
    s.session.token++;
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    assert_int_equal(0, memory.used_bytes);
    stock_close(&s);
}

TEST(round_refuses_ends_and_commits_that_make_no_sense)
{
    struct stock s;
    float value;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    const struct coxi_round_part parts[MEMBERS] = {{1, 1}, {1, NAN}};
    const struct coxi_update bad[] = {
        {0, COXI_OP_ROUND, ROUND, 0},
        {0, COXI_OP_ROUND, ROUND + 5, UINT64_MAX - 4},
        {0, COXI_OP_ROUND, FIRST, MEMBERS - 1},
        {0, COXI_OP_ROUND, 0, ROUND},
        {0, COXI_OP_ROUND, FIRST, MEMBERS}, /* a factor is no number */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct stock_commit commit;
        stock_begin(&s, ROUND, &commit);
        stock_add(&commit, 0, COXI_OP_ROUND, 0, 0, parts, sizeof(parts));
        commit.updates[0] = bad[i];
        assert_code(COX_EINVAL, stock_commit(&s, &commit, NULL));
    }
    const float ones[2] = {1, 1};
    assert_code(COX_EINVAL, push(&s, ROUND, 1, v, ones, 1, NULL)); /* ends itself */
    assert_code(COX_EINVAL, push(&s, FIRST, 0, v, ones, 1, NULL));
    assert_code(COX_EINVAL, push(&s, FIRST, COXI_ATTEMPT_LATEST, v, ones, 1, NULL));
    assert_code(COX_EINVAL, push(&s, FIRST, 1, v, ones, 2, NULL)); /* not its rows */
    assert_code(COX_ENOENT, push(&s, FIRST, 1, v + 1, ones, 1, NULL));
    assert_code(0, push(&s, FIRST, 1, v, ones, 1, NULL));
    end_these(&s, 1, 1); /* none of these has ended it */
    stock_pull(&s, v, 1, &value, 4);
    assert_true(value == -1);
    stock_close(&s);
}

/* ---- what a hostile worker may send */

TEST(round_takes_no_weight_that_is_no_number_or_is_negative)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, -1};
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    for (size_t i = 0; i < MEMBERS + sizeof(bad) / sizeof(*bad); i++) {
        struct stock_commit commit;
        bool is_good = i >= sizeof(bad) / sizeof(*bad);
        begin(&s, FIRST + i % MEMBERS, 1, &commit);
        commit.head.touched = ps_0;
        commit.head.n_touched = 1;
        commit.head.share = (struct coxi_share){
            .n = MEMBERS, .mean = true, .weight = is_good ? 1 : bad[i]};
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &(float){-2}, sizeof(float));
        assert_code(is_good ? 0 : COX_EINVAL, stock_commit(&s, &commit, NULL));
    }
    float value;
    assert_true(coxi_store_has_ended(s.store, ROUND));
    stock_pull(&s, v, 1, &value, sizeof(value));
    assert_true(value == 2);
    stock_close(&s);
}

/* Such commits would wait for as long as the round does, and be refused by its end. */
TEST(round_takes_no_commit_that_could_not_be_applied)
{
    static uint32_t touched[COXI_PS_MAX + 1];
    struct stock s;
    struct stock_commit commit;
    stock_open(&s);
    begin(&s, FIRST, 1, &commit);
    commit.head.segment = COXI_SEGMENTS_MAX;
    assert_code(COX_ELIMIT, stock_commit(&s, &commit, NULL));
    begin(&s, FIRST, 1, &commit);
    commit.head.touched = touched;
    commit.head.n_touched = COXI_PS_MAX + 1;
    assert_code(COX_ELIMIT, stock_commit(&s, &commit, NULL));
    begin(&s, FIRST, 1, &commit);
    commit.head.round = FIRST + COX_ROUND_MAX + 1;
    assert_code(COX_EINVAL, stock_commit(&s, &commit, NULL));
    begin(&s, FIRST, 1, &commit);
    commit.head.round = FIRST + COX_ROUND_MAX;
    assert_code(0, stock_commit(&s, &commit, NULL));
    stock_close(&s);
}

TEST(round_adds_up_gradients_that_have_no_rows)
{
    struct stock s;
    float value;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    uint32_t listed = dense(&s, "listed", COXI_OPTIMIZER_SGD, 1, 0, 1);
    uint32_t table = stock_table(&s, "t", 2);
    uint32_t added = stock_dense(&s, "added", COX_F32, 1);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        struct stock_commit commit;
        begin(&s, FIRST + i, 1, &commit);
        stock_add(&commit, added, COXI_OP_ADD, 0, 1, (const float[2]){1}, 8);
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 0, NULL, 0);
        stock_add(&commit, listed, COXI_OP_GRADIENT, COXI_ROWS_LISTED, 0, NULL, 0);
        stock_add_rows(&commit, table, COXI_OP_GRADIENT, NULL, 0, NULL, 0);
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    end_all(&s, 1);
    stock_pull(&s, v, 1, &value, sizeof(value));
    assert_true(value == 0);
    stock_pull(&s, added, 1, &value, sizeof(value));
    assert_true(value == MEMBERS);
    stock_close(&s);
}

/* There may be no memory for sums at all, because none is needed. */
TEST(round_adds_up_gradients_that_have_no_rows_and_no_memory)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, 1, 0, 1);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        struct stock_commit commit;
        begin(&s, FIRST + i, 1, &commit);
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 0, NULL, 0);
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    end_all(&s, 1);
    stock_close(&s);
}

TEST(round_that_finds_no_memory_can_be_ended_again)
{
    struct stock s;
    float value;
    stock_open(&s);
    uint32_t t = stock_table(&s, "t", 4);
    const struct coxi_round_part parts[MEMBERS] = {{1, 1}};
    static uint64_t keys[4096];
    static float gradients[4096][4];
    for (size_t i = 0; i < 4096; i++) {
        keys[i] = i;
        gradients[i][0] = 1;
    }
    struct stock_commit commit;
    begin(&s, FIRST, 1, &commit);
    commit.updates[commit.head.n_updates++] =
        (struct coxi_update){t, COXI_OP_GRADIENT, COXI_ROWS_LISTED, 4096};
    assert_code(0, coxi_buffer_append(&commit.payload, keys, sizeof(keys)));
    assert_code(0, coxi_buffer_append(&commit.payload, gradients, sizeof(gradients)));
    assert_code(0, stock_commit(&s, &commit, NULL));
    coxi_store_set_memory_max(s.store, stock_counts(&s).bytes + 100);
    assert_code(COX_ENOMEM, end_with(&s, parts, 1, NULL));
    float row[4];
    (void)stock_pull_row(&s, t, 17, row, sizeof(row));
    value = row[0];
    assert_true(value == 0);
    coxi_store_set_memory_max(s.store, 0);
    assert_code(0, end_with(&s, parts, 1, NULL));
    (void)stock_pull_row(&s, t, 17, row, sizeof(row));
    assert_true(row[0] == -1 && row[1] == 0);
    stock_close(&s);
}
