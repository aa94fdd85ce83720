/* How stale gradients are, and what their variable wants done about it. */
#include <math.h>
#include <string.h>

#include "coxswain/types.h"
#include "ps/staleness.h"
#include "tests/common/histogram.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

static const struct coxi_staleness apply = {0};

/* A dense variable of one float, with a rate of 1. */
static uint32_t dense(struct stock *s, const char *name, uint32_t kind,
                      const struct coxi_staleness *staleness)
{
    struct coxi_shard shard = {.count = 1};
    struct coxi_variable variable = {
        .name = name,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {1},
        .shards = &shard,
        .n_shards = 1,
        .optimizer = {.kind = kind,
                      .learning_rate = 1,
                      .epsilon = kind == COXI_OPTIMIZER_ADAM ? 1e-8F : 0,
                      .beta1 = kind == COXI_OPTIMIZER_ADAM ? .9F : 0,
                      .beta2 = kind == COXI_OPTIMIZER_ADAM ? .999F : 0},
        .staleness = *staleness,
    };
    assert_code(0, coxi_variable_check(&variable, 1));
    return stock_create(s, &variable);
}

static uint32_t table(struct stock *s, const char *name,
                      const struct coxi_staleness *staleness)
{
    struct coxi_variable variable = {
        .name = name,
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {1},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
        .staleness = *staleness,
    };
    assert_code(0, coxi_variable_check(&variable, 1));
    return stock_create(s, &variable);
}

/* The version that a pull of a variable, or of the row `key` of a table, tells. */
static uint64_t version_of(struct stock *s, uint32_t variable, bool is_table,
                           uint64_t key)
{
    float value;
    return is_table ? stock_pull_row(s, variable, key, &value, sizeof(value))
                    : stock_pull(s, variable, 1, &value, sizeof(value));
}

/* Commits a gradient of 1, computed from values of that version (0: of none), as
 * `worker` (none: nobody). */
static int push_as(struct stock *s, uint64_t closure, struct coxi_maybe worker,
                   uint32_t variable, uint64_t pulled, bool *ret_duplicate)
{
    const float one = 1;
    struct stock_commit commit;
    stock_begin(s, closure, &commit);
    stock_add(&commit, variable, COXI_OP_GRADIENT, 0, 1, &one, sizeof(one));
    commit.head.pulled = &pulled;
    commit.head.n_pulled = pulled != 0 ? 1 : 0;
    commit.head.worker = worker;
    return stock_commit(s, &commit, ret_duplicate);
}

static void push(struct stock *s, uint32_t variable, uint64_t pulled)
{
    assert_code(0, push_as(s, ++s->closure, coxi_maybe_of(0), variable, pulled, NULL));
}

static void push_row(struct stock *s, uint32_t t, uint64_t key, uint64_t pulled)
{
    const float one = 1;
    struct stock_commit commit;
    stock_begin(s, ++s->closure, &commit);
    stock_add_rows(&commit, t, COXI_OP_GRADIENT, &key, 1, &one, sizeof(one));
    commit.head.pulled = &pulled;
    commit.head.n_pulled = pulled != 0 ? 1 : 0;
    assert_code(0, stock_commit(s, &commit, NULL));
}

static float value_of(struct stock *s, uint32_t variable)
{
    float value;
    (void)stock_pull(s, variable, 1, &value, sizeof(value));
    return value;
}

/* Row 7 of a table. */
static float row_of(struct stock *s, uint32_t t)
{
    float row;
    (void)stock_pull_row(s, t, 7, &row, sizeof(row));
    return row;
}

static struct coxi_histogram seen(struct stock *s, enum coxi_stale_of of,
                                  uint32_t index)
{
    struct coxi_counts counts;
    coxi_store_counts(s->store, &(struct coxi_count){.stale_of = of, .index = index},
                      &counts);
    return counts.stale;
}

TEST(staleness_is_how_many_updates_came_since_the_pull)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &apply);
    uint32_t other = dense(&s, "other", COXI_OPTIMIZER_SGD, &apply);
    uint64_t first = version_of(&s, v, false, 0);
    push(&s, v, first); /* 0 */
    push(&s, v, first); /* 1 */
    push(&s, other, version_of(&s, other, false, 0));
    struct stock_commit commit; /* any update counts as one */
    const float two = 2;
    stock_begin(&s, ++s.closure, &commit);
    stock_add(&commit, v, COXI_OP_ASSIGN, 0, 1, &two, sizeof(two));
    assert_code(0, stock_commit(&s, &commit, NULL));
    push(&s, v, first);                       /* 3 */
    push(&s, v, first);                       /* 4 */
    push(&s, v, version_of(&s, v, false, 0)); /* 0 */
    push(&s, v, 0);                           /* unknown */
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, v);
    assert_int_equal(5, histogram_total(&h));
    assert_int_equal(2, h.counts[0]);
    assert_int_equal(1, h.counts[1]);
    assert_int_equal(1, h.counts[2]);
    assert_int_equal(1, h.counts[3]);
    assert_int_equal(8, h.sum);
    assert_int_equal(4, h.max);
    assert_int_equal(0, h.dropped);
    h = seen(&s, COXI_STALE_ALL, 0);
    assert_int_equal(6, histogram_total(&h));
    assert_int_equal(8, h.sum);
    h = seen(&s, COXI_STALE_VARIABLE, 77);
    assert_int_equal(0, histogram_total(&h));
    h = seen(&s, COXI_STALE_NONE, 0);
    assert_int_equal(0, histogram_total(&h));
    stock_close(&s);
}

TEST(staleness_of_a_table_counts_the_updates_of_all_its_rows)
{
    struct stock s;
    stock_open(&s);
    uint32_t t = table(&s, "t", &apply);
    uint64_t first = version_of(&s, t, true, 7);
    push_row(&s, t, 8, 0);
    push_row(&s, t, 9, first);                      /* 1 */
    push_row(&s, t, 7, first);                      /* 2 */
    push_row(&s, t, 7, version_of(&s, t, true, 7)); /* 0 */
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, t);
    assert_int_equal(3, histogram_total(&h));
    assert_int_equal(3, h.sum);
    assert_int_equal(2, h.max);
    stock_close(&s);
}

TEST(staleness_is_the_same_for_all_updates_of_a_commit)
{
    struct stock s;
    const float one = 1;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &apply);
    uint64_t first = version_of(&s, v, false, 0);
    const uint64_t pulled[3] = {first, 0, first};
    push(&s, v, 0);
    struct stock_commit commit;
    stock_begin(&s, ++s.closure, &commit);
    for (size_t i = 0; i < 4; i++) { /* the list may end before the updates */
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &one, sizeof(one));
    }
    commit.head.pulled = pulled;
    commit.head.n_pulled = 3;
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, v);
    assert_int_equal(2, histogram_total(&h));
    assert_int_equal(2, h.counts[1]);
    stock_close(&s);
}

TEST(staleness_of_duplicates_and_of_commits_that_fail_is_not_counted)
{
    struct stock s;
    bool duplicate;
    const float one = 1;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &apply);
    uint64_t first = version_of(&s, v, false, 0);
    struct coxi_maybe worker = coxi_maybe_of(3);
    assert_code(0, push_as(&s, 50, worker, v, first, &duplicate));
    assert_false(duplicate);
    assert_code(0, push_as(&s, 50, worker, v, first, &duplicate));
    assert_true(duplicate);
    struct stock_commit commit;
    stock_begin(&s, 51, &commit);
    commit.head.pulled = &first;
    commit.head.n_pulled = 1;
    stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &one, sizeof(one));
    stock_add(&commit, v, COXI_OP_GRADIENT, 5, 1, &one, sizeof(one));
    assert_code(COX_EINVAL, stock_commit(&s, &commit, NULL));
    struct coxi_histogram h = seen(&s, COXI_STALE_ALL, 0);
    assert_int_equal(1, histogram_total(&h));
    h = seen(&s, COXI_STALE_WORKER, 3);
    assert_int_equal(1, histogram_total(&h));
    stock_close(&s);
}

TEST(staleness_is_never_negative_whatever_version_a_peer_names)
{
    static const uint64_t versions[] = {UINT64_MAX, (uint64_t)1 << 63, 1000, 1};
    struct stock s;
    stock_open(&s);
    const struct coxi_staleness scale = {COXI_STALENESS_SCALE, 0, 0};
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &scale);
    for (size_t i = 0; i < 4; i++) {
        push(&s, v, versions[i]);
    }
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, v);
    assert_int_equal(3, h.counts[0]);
    assert_int_equal(COXI_VERSION_FIRST + 3 - 1, h.max); /* all that there were */
    assert_int_equal(h.max, h.sum);
    assert_true(fabsf(value_of(&s, v) + 3 + 1.0F / 5) < 1e-6F);
    stock_close(&s);
}

TEST(staleness_is_counted_for_each_worker)
{
    static const uint32_t workers[] = {0,
                                       1,
                                       15,
                                       16,
                                       COXI_STALE_WORKERS_MAX - 1,
                                       COXI_STALE_WORKERS_MAX,
                                       UINT32_MAX - 1};
    enum { N = sizeof(workers) / sizeof(*workers) };
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &apply);
    uint64_t first = version_of(&s, v, false, 0);
    for (uint64_t i = 0; i < N; i++) {
        assert_code(
            0, push_as(&s, ++s.closure, coxi_maybe_of(workers[i]), v, first, NULL));
    }
    assert_code(0, push_as(&s, ++s.closure, coxi_maybe_none(), v, first, NULL));
    for (uint64_t i = 0; i < N; i++) {
        struct coxi_histogram h = seen(&s, COXI_STALE_WORKER, workers[i]);
        bool alone = workers[i] < COXI_STALE_WORKERS_MAX;
        assert_int_equal(alone ? 1 : 0, histogram_total(&h));
        assert_int_equal(alone ? i : 0, h.max);
    }
    struct coxi_histogram none = seen(&s, COXI_STALE_WORKER, 2);
    struct coxi_histogram far = seen(&s, COXI_STALE_WORKER, 100);
    struct coxi_histogram all = seen(&s, COXI_STALE_ALL, 0);
    assert_int_equal(0, histogram_total(&none) + histogram_total(&far));
    assert_int_equal(N + 1, histogram_total(&all));
    assert_int_equal(N, all.max);
    stock_close(&s);
}

TEST(staleness_is_forgotten_with_its_run)
{
    struct stock s;
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &apply);
    push(&s, v, version_of(&s, v, false, 0));
    s.session.generation++;
    s.session.token++;
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    struct coxi_histogram h = seen(&s, COXI_STALE_ALL, 0);
    assert_int_equal(0, histogram_total(&h));
    stock_close(&s);
}

TEST(gradient_that_is_too_stale_is_dropped_and_its_closure_counts_as_applied)
{
    struct stock s;
    bool duplicate;
    stock_open(&s);
    const struct coxi_staleness drop = {COXI_STALENESS_DROP, 0, 1};
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &drop);
    uint64_t first = version_of(&s, v, false, 0);
    push(&s, v, first);
    push(&s, v, first);
    assert_true(value_of(&s, v) == -2);
    assert_code(0, push_as(&s, 50, coxi_maybe_of(2), v, first, &duplicate));
    assert_false(duplicate);
    assert_true(value_of(&s, v) == -2);
    assert_code(0, push_as(&s, 50, coxi_maybe_of(2), v, first + 2, &duplicate));
    assert_true(duplicate);
    assert_true(value_of(&s, v) == -2);
    /* what was dropped is no update that others miss */
    push(&s, v, first + 1);
    assert_true(value_of(&s, v) == -3);
    push(&s, v, 0);
    assert_true(value_of(&s, v) == -4);
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, v);
    assert_int_equal(4, histogram_total(&h));
    assert_int_equal(1, h.dropped);
    h = seen(&s, COXI_STALE_WORKER, 2);
    assert_int_equal(1, h.dropped);
    stock_close(&s);
}

TEST(gradient_of_a_table_that_is_dropped_makes_no_rows)
{
    struct stock s;
    stock_open(&s);
    const struct coxi_staleness drop = {COXI_STALENESS_DROP, 0, 0};
    uint32_t t = table(&s, "t", &drop);
    uint64_t first = version_of(&s, t, true, 7);
    push_row(&s, t, 7, first);
    push_row(&s, t, 8, first);
    assert_int_equal(1, stock_counts(&s).rows);
    struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, t);
    assert_int_equal(1, h.dropped);
    stock_close(&s);
}

TEST(gradient_that_is_dropped_counts_for_adam_in_snapshots_too)
{
    struct stock s;
    struct stock again;
    struct coxi_snapshot_file files[2];
    const char *paths[2] = {coxi_test_path("all"), coxi_test_path("changes")};
    const struct coxi_staleness drop = {COXI_STALENESS_DROP, 0, 0};
    stock_open(&s);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_ADAM, &drop);
    uint64_t first = version_of(&s, v, false, 0);
    push(&s, v, 0);
    for (uint64_t i = 0; i < 2; i++) {
        struct coxi_snapshot snapshot = {.session = s.session,
                                         .number = i + 1,
                                         .path = paths[i],
                                         .base = i,
                                         .track = true,
                                         .incarnation = STOCK_INCARNATION};
        assert_code(0, coxi_store_snapshot(s.store, &snapshot, &files[i]));
        push(&s, v, first); /* dropped */
    }
    assert_int_equal(1, files[1].base);
    stock_open(&again);
    assert_int_equal(v, dense(&again, "v", COXI_OPTIMIZER_ADAM, &drop));
    for (uint64_t i = 0; i < 2; i++) {
        struct coxi_restore restore = {.session = again.session,
                                       .round = 1,
                                       .at = i,
                                       .path = paths[i],
                                       .bytes = files[i].bytes,
                                       .crc32 = files[i].crc32,
                                       .more = i == 0,
                                       .incarnation = STOCK_INCARNATION};
        assert_code(0, coxi_store_restore(again.store, &restore));
        coxi_applied_list_fini(&files[i].applied);
    }
    assert_true(value_of(&s, v) == value_of(&again, v));
    /* the next one has a t of 3 there, as in a store that has dropped one, and not of 2 */
    struct stock third;
    stock_open(&third);
    assert_int_equal(v, dense(&third, "v", COXI_OPTIMIZER_ADAM, &drop));
    push(&third, v, 0);
    push(&third, v, first); /* dropped */
    push(&third, v, 0);
    push(&again, v, 0);
    assert_true(value_of(&again, v) == value_of(&third, v));
    assert_true(value_of(&again, v) > -1.95F); /* two whole steps would be -2 */
    stock_close(&third);
    stock_close(&again);
    stock_close(&s);
}

TEST(gradient_that_is_stale_is_scaled)
{
    struct stock s;
    const float two = 2;
    stock_open(&s);
    const struct coxi_staleness scale = {COXI_STALENESS_SCALE, 0, 1};
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &scale);
    uint64_t first = version_of(&s, v, false, 0);
    push(&s, v, first);
    push(&s, v, first);
    assert_true(value_of(&s, v) == -2);
    push(&s, v, first); /* 2: a third */
    push(&s, v, first); /* 3: a quarter */
    assert_true(fabsf(value_of(&s, v) + 2 + 1.0F / 3 + 1.0F / 4) < 1e-6F);
    struct stock_commit commit;
    float before = value_of(&s, v);
    stock_begin(&s, ++s.closure, &commit);
    stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &two, sizeof(two));
    commit.head.pulled = &first; /* 4 */
    commit.head.n_pulled = 1;
    commit.head.loss_scale = 8;
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_true(fabsf(value_of(&s, v) - before + 2.0F / 8 / 5) < 1e-6F);
    uint32_t t = table(&s, "t", &(struct coxi_staleness){COXI_STALENESS_SCALE, 0, 0});
    uint64_t pulled = version_of(&s, t, true, 7);
    push_row(&s, t, 7, 0);
    push_row(&s, t, 7, pulled);
    assert_true(row_of(&s, t) == -1.5F);
    stock_close(&s);
}

/* Commits the gradient 3 * scale, computed from the value 1. */
static int push_compensated(struct stock *s, uint32_t variable, bool is_table,
                            float scale, uint64_t round, size_t bytes)
{
    const uint64_t key = 7;
    const float values[4] = {3 * scale, 0, 1, 0};
    struct stock_commit commit;
    stock_begin(s, ++s->closure, &commit);
    commit.head.loss_scale = scale;
    commit.head.round = round;
    if (is_table) {
        stock_add_rows(&commit, variable, COXI_OP_COMPENSATED, &key, 1, values, bytes);
    } else {
        stock_add(&commit, variable, COXI_OP_COMPENSATED, 0, 1, values, bytes);
    }
    return stock_commit(s, &commit, NULL);
}

TEST(gradient_is_compensated_for_the_delay)
{
    static const float scales[] = {0, 1, 8};
    const struct coxi_staleness half = {COXI_STALENESS_APPLY, 0.5F, 0};
    for (size_t i = 0; i < 2 * sizeof(scales) / sizeof(*scales); i++) {
        struct stock s;
        bool is_table = i % 2 == 1;
        float scale = scales[i / 2];
        stock_open(&s);
        uint32_t v = is_table ? table(&s, "t", &half)
                              : dense(&s, "v", COXI_OPTIMIZER_SGD, &half);
        for (int k = 0; k < 2; k++) { /* the value is -2 then */
            if (is_table) {
                push_row(&s, v, 7, 0);
            } else {
                push(&s, v, 0);
            }
        }
        assert_code(0,
                    push_compensated(&s, v, is_table, scale != 0 ? scale : 1, 0, 16));
        /* 3 + 0.5 * 3 * 3 * (-2 - 1) = -10.5 */
        assert_true((is_table ? row_of(&s, v) : value_of(&s, v)) == 8.5F);
        assert_code(COX_EINVAL, push_compensated(&s, v, is_table, 1, 0, 8));
        stock_close(&s);
    }
}

TEST(gradient_that_is_not_to_be_compensated_is_refused_or_applied_as_it_is)
{
    struct stock s;
    const struct coxi_staleness half = {COXI_STALENESS_APPLY, 0.5F, 0};
    stock_open(&s);
    uint32_t plain = dense(&s, "plain", COXI_OPTIMIZER_SGD, &apply);
    uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &half);
    assert_code(COX_EINVAL, push_compensated(&s, plain, false, 1, 0, 16));
    s.closure = 100;
    const struct coxi_round_part part = {1, 1};
    assert_code(0, push_compensated(&s, v, false, 1, 102, 16));
    struct stock_commit commit;
    stock_begin(&s, 102, &commit);
    stock_add(&commit, 0, COXI_OP_ROUND, 101, 1, &part, sizeof(part));
    commit.head.n_waiting = 1;
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_true(value_of(&s, v) == -3);
    stock_close(&s);
}

enum { FIRST = 101, ROUND = 104, MEMBERS = ROUND - FIRST };

/* Ends a round of three closures that have pulled `pulled`; returns the value. */
static float run_round(struct stock *s, uint32_t v, const uint64_t pulled[MEMBERS])
{
    static const struct coxi_round_part parts[MEMBERS] = {{1, 1}, {1, 1}, {1, 1}};
    struct stock_commit commit;
    for (uint64_t i = 0; i < MEMBERS; i++) {
        const float gradient = (float)(1 << i);
        stock_begin(s, FIRST + i, &commit);
        stock_add(&commit, v, COXI_OP_GRADIENT, 0, 1, &gradient, sizeof(gradient));
        commit.head.pulled = &pulled[i];
        commit.head.n_pulled = 1;
        commit.head.round = ROUND;
        commit.head.worker = coxi_maybe_of((uint32_t)i);
        assert_code(0, stock_commit(s, &commit, NULL));
    }
    struct coxi_histogram h = seen(s, COXI_STALE_VARIABLE, v);
    assert_int_equal(0, histogram_total(&h)); /* nothing is counted before the end */
    push(s, v, 0);
    for (int i = 0; i < 2; i++) { /* the second time is a duplicate */
        stock_begin(s, ROUND, &commit);
        stock_add(&commit, 0, COXI_OP_ROUND, FIRST, MEMBERS, parts, sizeof(parts));
        commit.head.n_waiting = MEMBERS;
        assert_code(0, stock_commit(s, &commit, NULL));
    }
    h = seen(s, COXI_STALE_VARIABLE, v);
    assert_int_equal(MEMBERS, histogram_total(&h));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        h = seen(s, COXI_STALE_WORKER, i);
        assert_int_equal(1, histogram_total(&h));
    }
    return value_of(s, v);
}

TEST(round_counts_the_staleness_of_its_members_at_its_end)
{
    static const struct coxi_staleness rules[] = {{0},
                                                  {COXI_STALENESS_DROP, 0, 1},
                                                  {COXI_STALENESS_SCALE, 0, 0},
                                                  {COXI_STALENESS_DROP, 0, 0}};
    /* 1 is pushed before the end; 1, 2 and 4 are the members' gradients */
    static const float values[] = {-8, -7, -1 - (1.0F / 3 + 1 + 2), -1};
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        struct stock s;
        stock_open(&s);
        uint32_t v = dense(&s, "v", COXI_OPTIMIZER_SGD, &rules[i]);
        uint64_t first = version_of(&s, v, false, 0);
        const uint64_t pulled[MEMBERS] = {first - 1, first, first};
        float value = run_round(&s, v, pulled);
        assert_true(fabsf(value - values[i]) < 1e-6F);
        struct coxi_histogram h = seen(&s, COXI_STALE_VARIABLE, v);
        assert_int_equal(2, h.counts[1]);
        assert_int_equal(1, h.counts[2]);
        assert_int_equal(i == 1 ? 1 : i == 3 ? MEMBERS : 0, h.dropped);
        stock_close(&s);
    }
}
