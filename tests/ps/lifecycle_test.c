/* Admission and eviction of rows. */
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

/* ---- admission */

TEST(a_key_gets_its_row_with_the_update_that_it_is_admitted_with)
{
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.admit_count = 3});
    struct coxi_table *table = lifecycle_table(&v);
    for (int i = 0; i < 2; i++) {
        lifecycle_push(table, 7, 1);
        assert_int_equal(0, coxi_table_rows(table));
        assert_true(lifecycle_moved(table, 7) == 0);
    }
    lifecycle_push(table, 7, 1);
    assert_int_equal(1, coxi_table_rows(table));
    /* gradients before the admission are dropped */
    assert_true(lifecycle_moved(table, 7) == -1);
    lifecycle_push(table, 7, 1);
    assert_true(lifecycle_moved(table, 7) == -2);
    assert_int_equal(4, coxi_table_step(table));
    coxi_table_free(table);
}

TEST(what_is_no_gradient_makes_a_row_at_once)
{
    static const enum coxi_op ops[] = {COXI_OP_ADD, COXI_OP_ASSIGN, COXI_OP_MIN,
                                       COXI_OP_MAX};
    struct coxi_variable v = lifecycle_variable(
        1, (struct coxi_lifecycle){.admit_count = 100, .admit_probability = 0.001F});
    struct coxi_table *table = lifecycle_table(&v);
    for (size_t i = 0; i < 4; i++) {
        lifecycle_apply(table, ops[i], i, 1);
        assert_int_equal(i + 1, coxi_table_rows(table));
        lifecycle_push(table, i, 1); /* the row exists, so it needs no admission */
    }
    assert_true(lifecycle_moved(table, 0) == 0);
    coxi_table_free(table);
}

TEST(keys_are_drawn_with_their_probability_and_by_their_commit)
{
    enum { N = 10000 };
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.admit_probability = 0.25F});
    struct coxi_table *first = lifecycle_table(&v);
    struct coxi_table *second = lifecycle_table(&v);
    for (uint64_t i = 0; i < N; i += 50) {
        lifecycle_push(first, i, 50);
        lifecycle_push(second, i, 50);
    }
    uint64_t n = coxi_table_rows(first);
    assert_true(n > N / 4 - 250 && n < N / 4 + 250);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(lifecycle_has(first, i), lifecycle_has(second, i));
    }
    for (uint64_t i = 0; i < N; i += 50) {
        struct lifecycle_work work;
        lifecycle_begin(&work, COXI_OP_GRADIENT, i, 50);
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
    struct coxi_variable v = lifecycle_variable(
        1, (struct coxi_lifecycle){.admit_count = 2, .admit_probability = 0.5F});
    struct coxi_table *table = lifecycle_table(&v);
    for (uint64_t i = 0; i < N; i += 50) {
        lifecycle_push(table, i, 50);
    }
    assert_int_equal(0, coxi_table_rows(table));
    for (uint64_t i = 0; i < N; i += 50) {
        lifecycle_push(table, i, 50);
    }
    uint64_t n = coxi_table_rows(table);
    assert_true(n > N / 2 - 300 && n < N / 2 + 300);
    coxi_table_free(table);
}

/* So many keys that several share each counter. */
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
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.evict_age = AGE});
    struct coxi_table *table = lifecycle_table(&v);
    struct coxi_table_counters counts;
    for (uint64_t i = 0; i < N; i += 50) {
        lifecycle_push(table, i, 50);
    }
    assert_int_equal(N, coxi_table_rows(table));
    for (int i = 0; coxi_table_rows(table) > 10 && i < 1000; i++) {
        lifecycle_push(table, 0, 10);
        assert_true(lifecycle_moved(table, 5) == -(float)(i + 2));
    }
    coxi_table_counts(table, &counts);
    assert_int_equal(10, counts.rows);
    assert_int_equal(N, counts.admitted);
    assert_int_equal(N - 10, counts.evicted);
    assert_true(lifecycle_moved(table, 100) == 0);
    lifecycle_push(table, 100, 1);
    assert_true(lifecycle_moved(table, 100) == -1);
    coxi_table_free(table);
}

TEST(rows_with_few_gradients_go_when_their_time_has_come)
{
    struct coxi_variable v = lifecycle_variable(
        1, (struct coxi_lifecycle){.evict_count = 3, .evict_count_age = 50});
    struct coxi_table *table = lifecycle_table(&v);
    lifecycle_push(table, 0, 60);
    for (int i = 0; i < 2; i++) {
        lifecycle_push(table, 0, 30); /* these have three */
    }
    for (uint64_t i = 0; i < 46; i++) {
        lifecycle_push(table, 1000 + i, 1);
    }
    assert_int_equal(106, coxi_table_rows(table));
    for (int i = 0; i < 1000; i++) {
        lifecycle_push(table, 0, 1);
    }
    assert_int_equal(30, coxi_table_rows(table));
    for (uint64_t i = 0; i < 30; i++) {
        assert_true(lifecycle_has(table, i));
    }
    coxi_table_free(table);
}

TEST(there_are_never_more_rows_than_rows_max_and_those_in_use_stay)
{
    enum { MAX = 100, HOT = 20 };
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.rows_max = MAX});
    struct coxi_table *table = lifecycle_table(&v);
    for (uint64_t i = 0; i < 300; i++) {
        lifecycle_push(table, 0, HOT);
        lifecycle_push(table, 1000 + i * 10, 10);
        assert_true(coxi_table_rows(table) <= MAX);
        assert_true(i < 20 || coxi_table_rows(table) == MAX);
    }
    lifecycle_push(table, 0, HOT);
    for (uint64_t i = 0; i < HOT; i++) {
        assert_true(lifecycle_moved(table, i) == -301);
    }
    lifecycle_push(table, 500, 64);
    assert_int_equal(MAX, coxi_table_rows(table));
    coxi_table_free(table);
}

TEST(the_memory_of_rows_that_went_is_used_again)
{
    struct coxi_variable v =
        lifecycle_variable(4, (struct coxi_lifecycle){.rows_max = 1000});
    struct coxi_table *table = lifecycle_table(&v);
    for (uint64_t i = 0; i < 40; i++) {
        lifecycle_push(table, i * 50, 50);
    }
    uint64_t bytes = coxi_table_bytes(table);
    for (uint64_t i = 0; i < 2000; i++) {
        lifecycle_push(table, 10000 + i * 50, 50);
    }
    assert_int_equal(bytes, coxi_table_bytes(table));
    assert_int_equal(1000, coxi_table_rows(table));
    coxi_table_free(table);
}

TEST(a_row_stays_from_when_it_is_resolved_until_it_is_updated)
{
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.evict_age = 5, .rows_max = 50});
    struct coxi_table *table = lifecycle_table(&v);
    struct lifecycle_work held;
    struct lifecycle_work dropped;
    lifecycle_begin(&held, COXI_OP_ADD, 0, 10);
    lifecycle_begin(&dropped, COXI_OP_ADD, 10, 10);
    assert_code(0, coxi_table_resolve(table, &held.change));
    assert_code(0, coxi_table_resolve(table, &dropped.change));
    for (uint64_t i = 0; i < 500; i++) {
        lifecycle_push(table, 1000 + i * 40, 40);
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(lifecycle_has(table, i));
    }
    coxi_table_update(table, &held.change);
    assert_true(lifecycle_moved(table, 3) == 1);
    coxi_table_release(table, &dropped.change);
    for (uint64_t i = 0; i < 500; i++) {
        lifecycle_push(table, 1000 + i * 40, 40);
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_false(lifecycle_has(table, i));
    }
    coxi_table_free(table);
}

/* ---- memory */

TEST(a_change_that_would_need_too_much_memory_makes_no_row)
{
    struct coxi_variable v =
        lifecycle_variable(4, (struct coxi_lifecycle){.rows_max = 30});
    struct coxi_memory memory = {.max_bytes = 0};
    struct coxi_table *table;
    struct lifecycle_work work;
    assert_code(0, coxi_table_new(&v, &memory, &table));
    lifecycle_push(table, 0, 40);
    assert_int_equal(coxi_table_bytes(table), memory.used_bytes);
    memory.max_bytes = memory.used_bytes + 100;
    lifecycle_begin(&work, COXI_OP_GRADIENT, 1000, 60);
    assert_code(COX_ENOMEM, coxi_table_resolve(table, &work.change));
    assert_error_names("50 rows of table 't'");
    assert_error_names("--memory-max");
    assert_int_equal(30, coxi_table_rows(table));
    assert_false(lifecycle_has(table, 1000));
    lifecycle_push(table, 2000, 10); /* evicted rows have left room */
    assert_int_equal(30, coxi_table_rows(table));
    coxi_table_free(table);
    assert_int_equal(0, memory.used_bytes);
}

TEST(memory_that_a_change_did_not_need_is_there_for_the_next)
{
    struct coxi_variable v = lifecycle_variable(4, (struct coxi_lifecycle){0});
    struct coxi_table *table = lifecycle_table(&v);
    struct lifecycle_work work;
    lifecycle_begin(&work, COXI_OP_GRADIENT, 0, 60);
    memset(work.keys, 0, sizeof(work.keys)); /* the same key sixty times */
    assert_code(0, coxi_table_resolve(table, &work.change));
    coxi_table_update(table, &work.change);
    assert_int_equal(1, coxi_table_rows(table));
    uint64_t bytes = coxi_table_bytes(table);
    lifecycle_push(table, 1, 59);
    assert_int_equal(bytes, coxi_table_bytes(table));
    lifecycle_push(table, 60, 1);
    assert_true(coxi_table_bytes(table) > bytes);
    coxi_table_free(table);
}

/* For each number of rows for which there is room before the change fails. */
TEST(a_change_that_fails_leaves_no_row_pinned_and_none_that_can_be_told)
{
    enum { N = 40 };
    struct coxi_variable v =
        lifecycle_variable(1, (struct coxi_lifecycle){.rows_max = 20});
    for (uint32_t room = 0; room < N; room++) {
        struct coxi_table *table = lifecycle_table(&v);
        struct lifecycle_work work;
        lifecycle_push(table, 0, 20);
        table->rows.max = table->rows.used + room;
        lifecycle_begin(&work, COXI_OP_GRADIENT, 10, 10 + N);
        assert_code(COX_ELIMIT, coxi_table_resolve(table, &work.change));
        assert_error_names("table 't'");
        table->rows.max = UINT32_MAX;
        for (uint64_t i = 0; i < 20 + N; i++) {
            assert_true(!lifecycle_has(table, i) ||
                        lifecycle_moved(table, i) == (i < 20 ? -1 : 0));
        }
        lifecycle_push(table, 1000, 20); /* a pinned row would stay */
        lifecycle_push(table, 2000, 20);
        for (uint64_t i = 0; i < 20 + N; i++) {
            assert_false(lifecycle_has(table, i));
        }
        coxi_table_free(table);
    }
}

TEST(counters_of_admission_count_as_memory)
{
    struct coxi_variable v =
        lifecycle_variable(4, (struct coxi_lifecycle){.admit_count = 2});
    struct coxi_memory memory = {.max_bytes = 1 << 20};
    struct coxi_table *table;
    assert_code(COX_ENOMEM, coxi_table_new(&v, &memory, &table));
    assert_int_equal(0, memory.used_bytes);
}
