/* All rows, slices and lists of rows, over any number of ps. */
#include "worker/rows.h"

#include <string.h>

#include "common/rand.h"
#include "coxswain/types.h"
#include "tests/test.h"
#include "tests/worker/rig.h"

/* ---- which keys are equal, and where their rows are */

static void assert_spread(const struct coxi_variable *v, uint32_t n_ps,
                          const uint64_t *keys, size_t n)
{
    /* used again for many calls, as an attempt does */
    static struct coxi_spread spread;
    static struct coxi_buffer places;
    uint32_t counts[17] = {0};
    size_t first = places.len / sizeof(uint32_t);
    assert_code(0, coxi_spread_rows(&spread, v, n_ps, keys, n, &places));
    const uint32_t *place = (const uint32_t *)(void *)places.data + first;
    const uint64_t *distinct = coxi_spread_distinct(&spread);
    size_t n_seen = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(place[i] <= n_seen);
        n_seen += place[i] == n_seen;
        assert_int_equal(keys[i], distinct[place[i]]);
    }
    assert_int_equal(n_seen, spread.n_distinct);
    for (size_t i = 0; i < n_seen; i++) {
        struct coxi_home home = coxi_spread_home(&spread, i);
        uint32_t ps = v->kind == COXI_KIND_TABLE ? coxi_key_ps(distinct[i], n_ps) : 0;
        while (v->kind == COXI_KIND_DENSE &&
               distinct[i] >= v->shards[ps].begin + v->shards[ps].count) {
            ps++;
        }
        assert_int_equal(v->kind == COXI_KIND_TABLE ? ps : v->shards[ps].ps, home.ps);
        assert_int_equal(counts[home.ps]++, home.row);
    }
    for (uint32_t p = 0; p < n_ps; p++) {
        assert_int_equal(counts[p], coxi_spread_count(&spread, p));
    }
    if (n > 900) { /* the last call */
        coxi_spread_fini(&spread);
        coxi_buffer_fini(&places);
        spread = (struct coxi_spread){0};
        places = (struct coxi_buffer){0};
    }
}

TEST(rows_are_listed_once_for_the_ps_that_holds_them)
{
    enum { N = 1000, N_DENSE = 50 };
    static uint64_t keys[N];
    uint64_t rng = 3;
    for (uint32_t n_ps = 1; n_ps <= 17; n_ps++) {
        struct coxi_shard shards[17];
        const struct coxi_variable table = {.kind = COXI_KIND_TABLE};
        const struct coxi_variable dense = {
            .shape = {N_DENSE}, .shards = shards, .n_shards = n_ps};
        coxi_shards_div(N_DENSE, n_ps, shards);
        for (uint32_t i = 0; i < n_ps; i++) {
            shards[i].ps = n_ps - 1 - i;
        }
        const size_t lengths[] = {0, 1, 2, 15, 16, 17, 100, N};
        for (size_t l = 0; l < 8; l++) {
            for (size_t i = 0; i < lengths[l]; i++) {
                keys[i] = coxi_rand(&rng) % N_DENSE;
            }
            assert_spread(&dense, n_ps, keys, lengths[l]);
            for (size_t i = 0; i < lengths[l]; i++) {
                keys[i] = coxi_rand(&rng) % (1 + l * 60);
                keys[i] = keys[i] == 7 ? UINT64_MAX : keys[i] << 40;
            }
            assert_spread(&table, n_ps, keys, lengths[l]);
        }
    }
}

TEST(rows_that_a_variable_does_not_have_are_refused)
{
    const uint64_t keys[] = {0, 9, 10};
    const struct coxi_variable dense = {.name = "d", .shape = {10}};
    const struct coxi_variable table = {
        .name = "t", .kind = COXI_KIND_TABLE, .shape = {2}};
    struct cox_rows rows = cox_rows_listed(keys, 2);
    assert_code(0, coxi_rows_check(&dense, &rows));
    rows.n = 3;
    assert_code(COX_EINVAL, coxi_rows_check(&dense, &rows));
    assert_error_names("no row 10");
    assert_code(0, coxi_rows_check(&table, &rows));
    rows.keys = NULL;
    assert_code(COX_EINVAL, coxi_rows_check(&table, &rows));
    rows.n = (size_t)UINT32_MAX + 1;
    assert_code(COX_ELIMIT, coxi_rows_check(&table, &rows));
    rows = cox_rows_slice(10, 0);
    assert_code(0, coxi_rows_check(&dense, &rows));
    rows = cox_rows_slice(11, 0);
    assert_code(COX_EINVAL, coxi_rows_check(&dense, &rows));
    rows = cox_rows_slice(5, SIZE_MAX);
    assert_code(COX_EINVAL, coxi_rows_check(&dense, &rows));
    assert_code(COX_EINVAL, coxi_rows_check(&table, &rows));
    rows.form = 3;
    assert_code(COX_EINVAL, coxi_rows_check(&dense, &rows));
}

/* ---- all forms, for every number of shards */

static void walk(uint32_t first, uint32_t last)
{
    for (uint32_t n = first; n <= last; n++) {
        struct rig rig;
        const struct coxi_variable walked = {
            .name = "walked",
            .dtype = COX_F32,
            .rank = 2,
            .shape = {40, 3},
            .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F}};
        const int64_t seed = 88172645463325252 + (int64_t)n;
        const int64_t rounds = 60;
        const struct cox_value args[] = {COX_SCALAR("seed", COX_I64, &seed),
                                         COX_SCALAR("rounds", COX_I64, &rounds)};
        rig_open(&rig, n, 1, 16);
        assert_int_equal(0, rig_load(&rig, 1, "walk", true));
        (void)rig_create(&rig, &walked, 0, n);
        rig_push(&rig, 1, 1, "walk", args, 2);
        (void)rig_expect(&rig, 1, 0);
        rig_close(&rig);
    }
}

TEST(rows_are_the_same_in_1_to_6_shards_as_in_a_plain_array)
{
    walk(1, 6);
}

TEST(rows_are_the_same_in_7_to_12_shards_as_in_a_plain_array)
{
    walk(7, 12);
}

TEST(rows_are_the_same_in_13_to_17_shards_as_in_a_plain_array)
{
    walk(13, 17);
}

/* If they all wanted the same slot, this would take minutes: each would pass all before
 * it. */
TEST(rows_that_were_chosen_to_collide_are_found_as_fast)
{
    enum { N = 200000 };
    const struct coxi_variable table = {.kind = COXI_KIND_TABLE};
    uint64_t *keys = malloc(N * sizeof(*keys));
    assert_non_null(keys);
    for (uint64_t i = 0; i < N; i++) {
        keys[i] = coxi_test_unhash(i << 32);
        assert_true(coxi_hash_key(keys[i]) == i << 32);
    }
    assert_spread(&table, 1, keys, N);
    free(keys);
}
