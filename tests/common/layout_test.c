#include "common/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/initializer.h"
#include "coxswain/types.h"
#include "tests/test.h"

enum { N_PS = 3 };

/* ---- div layout */

static void assert_div(uint64_t rows, uint32_t n, const uint64_t *counts)
{
    struct coxi_shard shards[17];
    coxi_shards_div(rows, n, shards);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(counts[i], shards[i].count);
    }
}

TEST(parts_of_a_range_are_what_each_shard_has_of_it)
{
    struct coxi_shard shards[7];
    coxi_shards_div(40, 7, shards);
    for (uint64_t begin = 0; begin <= 40; begin++) {
        for (uint64_t count = 0; begin + count <= 40; count++) {
            uint64_t next = begin;
            for (size_t i = 0; i < 7; i++) {
                struct coxi_range part = coxi_shard_part(&shards[i], begin, count);
                if (part.count > 0) {
                    assert_int_equal(next, part.begin);
                    assert_true(part.begin >= shards[i].begin);
                    next += part.count;
                    assert_true(next <= shards[i].begin + shards[i].count);
                }
            }
            assert_int_equal(begin + count, next);
        }
    }
}

TEST(the_first_shards_have_one_row_more)
{
    assert_div(10, 4, (uint64_t[]){3, 3, 2, 2});
    assert_div(8, 4, (uint64_t[]){2, 2, 2, 2});
    assert_div(1, 1, (uint64_t[]){1});
    assert_div(5, 3, (uint64_t[]){2, 2, 1});
    assert_div(2, 4, (uint64_t[]){1, 1, 0, 0});
    assert_div(UINT64_MAX, 2, (uint64_t[]){(uint64_t)1 << 63, UINT64_MAX >> 1});
}

TEST(shards_tile_the_rows_for_every_number_of_them)
{
    for (uint32_t n = 1; n <= 17; n++) {
        for (uint64_t rows = 0; rows <= 200; rows++) {
            struct coxi_shard shards[17];
            uint64_t next = 0;
            coxi_shards_div(rows, n, shards);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(next, shards[i].begin);
                assert_in_range(shards[i].count, rows / n, (rows + n - 1) / n);
                assert_true(i == 0 || shards[i].count <= shards[i - 1].count);
                next += shards[i].count;
            }
            assert_int_equal(rows, next);
        }
    }
}

/* ---- checks */

static struct coxi_shard three[N_PS];

/* A correct dense variable on three ps. Each call resets its shards, `three`. */
static struct coxi_variable dense(void)
{
    static const struct coxi_shard good[N_PS] = {{2, 0, 4}, {0, 4, 3}, {1, 7, 3}};
    memcpy(three, good, sizeof(three));
    return (struct coxi_variable){
        .id = 5,
        .name = "layer/w",
        .kind = COXI_KIND_DENSE,
        .dtype = COX_F32,
        .rank = 2,
        .shape = {10, 4},
        .shards = three,
        .n_shards = N_PS,
        .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                      .learning_rate = 0.1F,
                      .epsilon = 1e-7F,
                      .initial_accumulator = 0.1F},
        .initializer = {COXI_INIT_UNIFORM, -1, 1, 9},
    };
}

static struct coxi_variable table(void)
{
    return (struct coxi_variable){
        .name = "t",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {COXI_TABLE_DIM_MAX},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F},
    };
}

TEST(good_descriptions_are_accepted)
{
    char name[COXI_WIRE_NAME_MAX + 1];
    struct coxi_variable v = dense();
    assert_code(0, coxi_variable_check(&v, N_PS));
    memset(name, 'n', sizeof(name));
    name[COXI_WIRE_NAME_MAX] = '\0';
    v.name = name;
    assert_code(0, coxi_variable_check(&v, N_PS));
    v.name = "gr\xc3\xb6\xc3\x9f"
             "e\xe2\x82\xac\xf0\x9f\x9a\xa3";
    assert_code(0, coxi_variable_check(&v, N_PS));
    v.dtype = COX_U8;
    v.optimizer = (struct coxi_optimizer){.kind = COXI_OPTIMIZER_NONE};
    assert_code(0, coxi_variable_check(&v, N_PS));
    v = table();
    assert_code(0, coxi_variable_check(&v, N_PS));
}

#define BAD(what, code, text, change)                                                  \
    static void what(__attribute__((unused)) struct coxi_variable *v)                  \
    {                                                                                  \
        change;                                                                        \
    }                                                                                  \
    enum { what##_code = (code) };                                                     \
    static const char what##_text[] = text

BAD(empty_name, COX_EINVAL, "name", v->name = "");
BAD(space_in_name, COX_EINVAL, "a b", v->name = "a b");
BAD(tab_in_name, COX_EINVAL, "name", v->name = "a\tb");
BAD(quote_in_name, COX_EINVAL, "a\"b", v->name = "a\"b");
BAD(backslash_in_name, COX_EINVAL, "a\\b", v->name = "a\\b");
BAD(delete_in_name, COX_EINVAL, "name", v->name = "a\x7f");
BAD(latin_1_name, COX_EINVAL, "UTF-8",
    v->name = "gr\xf6"
              "sse");
BAD(cut_utf8_name, COX_EINVAL, "UTF-8", v->name = "a\xe2\x82");
BAD(overlong_utf8_name, COX_EINVAL, "UTF-8", v->name = "a\xc0\xaf");
BAD(surrogate_name, COX_EINVAL, "UTF-8", v->name = "a\xed\xa0\x80");
BAD(past_unicode_name, COX_EINVAL, "UTF-8", v->name = "a\xf4\x90\x80\x80");
BAD(unknown_kind, COX_EINVAL, "layer/w",
    v->kind = (enum coxi_kind)(COXI_KIND_TABLE + 1));
BAD(rank_0, COX_EINVAL, "rank 0", v->rank = 0);
BAD(rank_9, COX_EINVAL, "rank 9", v->rank = COX_RANK_MAX + 1);
BAD(no_type, COX_EINVAL, "layer/w", v->dtype = 0);
BAD(unknown_type, COX_EINVAL, "layer/w", v->dtype = 99);
BAD(zero_dimension, COX_EINVAL, "dimension of 0", v->shape[1] = 0);
BAD(too_many_bytes, COX_ELIMIT, "layer/w", v->shape[1] = UINT64_MAX / 4);
BAD(shard_missing, COX_EINVAL, "tile", v->n_shards = 2);
BAD(no_shards, COX_EINVAL, "tile", v->n_shards = 0);
BAD(shard_of_unknown_ps, COX_EINVAL, "tile", three[2].ps = N_PS);
BAD(shards_with_gap, COX_EINVAL, "tile", three[1].begin = 5);
BAD(empty_shard, COX_EINVAL, "tile", three[0].count = 0);
BAD(shard_past_the_end, COX_EINVAL, "tile", three[2].count = 4);
BAD(huge_shard, COX_EINVAL, "tile", three[1].count = UINT64_MAX);
BAD(two_shards_on_a_ps, COX_EINVAL, "two shards on ps 2", three[2].ps = 2);
BAD(unknown_optimizer, COX_EINVAL, "optimizer", v->optimizer.kind = COXI_OPTIMIZER_END);
BAD(optimizer_of_integers, COX_EINVAL, "I64", v->dtype = COX_I64);
BAD(endless_rate, COX_EINVAL, "layer/w", v->optimizer.learning_rate = INFINITY);
BAD(rate_that_is_none, COX_EINVAL, "layer/w", v->optimizer.learning_rate = NAN);
BAD(negative_epsilon, COX_EINVAL, "epsilon", v->optimizer.epsilon = -1);
BAD(negative_sum, COX_EINVAL, "accumulator", v->optimizer.initial_accumulator = -1);
BAD(unknown_initializer, COX_EINVAL, "layer/w", v->initializer.kind = COXI_INIT_END);
BAD(bad_initializer, COX_EINVAL, "layer/w", v->initializer.a = NAN);
BAD(narrow_as_wide, COX_EINVAL, "wire_dtype", v->wire_dtype = COX_F64);
BAD(narrow_integers, COX_EINVAL, "wire_dtype", v->dtype = COX_I64;
    v->optimizer.kind = COXI_OPTIMIZER_NONE; v->optimizer = (struct coxi_optimizer){0};
    v->wire_dtype = COX_BF16);
BAD(unknown_policy, COX_EINVAL, "policy", v->nonfinite = COXI_NONFINITE_ALLOW + 1);
static const struct coxi_optimizer loss_scale = {
    .kind = COXI_OPTIMIZER_LOSS_SCALE, .growth_factor = 2, .growth_interval = 2};
BAD(loss_scale_of_several, COX_EINVAL, "shape {1}", v->optimizer = loss_scale);
BAD(loss_scale_of_rows, COX_EINVAL, "table 't': a loss scale is a dense", *v = table();
    v->shape[0] = 1; v->optimizer = loss_scale);
BAD(narrow_loss_scale, COX_EINVAL, "without wire_dtype", v->shape[0] = v->shape[1] = 1;
    v->wire_dtype = COX_F16; v->optimizer = loss_scale);
BAD(unknown_metric, COX_EINVAL, "metric", v->metric = COXI_METRIC_END);
BAD(metric_of_floats, COX_EINVAL, "F64", v->metric = COXI_METRIC_SUM);
BAD(lifecycle_of_dense_rows, COX_EINVAL, "only tables", v->lifecycle.rows_max = 1);
BAD(probability_past_1, COX_EINVAL, "admit_probability", *v = table();
    v->lifecycle.admit_probability = 1.5F);
BAD(probability_that_is_none, COX_EINVAL, "admit_probability", *v = table();
    v->lifecycle.admit_probability = NAN);
BAD(count_without_age, COX_EINVAL, "evict_count_age", *v = table();
    v->lifecycle.evict_count = 2);

#define BAD_ROW(what) {what, what##_code, what##_text}

static const struct {
    void (*change)(struct coxi_variable *v);
    int code;
    const char *text;
} bad[] = {
    BAD_ROW(empty_name),
    BAD_ROW(space_in_name),
    BAD_ROW(tab_in_name),
    BAD_ROW(quote_in_name),
    BAD_ROW(backslash_in_name),
    BAD_ROW(delete_in_name),
    BAD_ROW(latin_1_name),
    BAD_ROW(cut_utf8_name),
    BAD_ROW(overlong_utf8_name),
    BAD_ROW(surrogate_name),
    BAD_ROW(past_unicode_name),
    BAD_ROW(unknown_kind),
    BAD_ROW(rank_0),
    BAD_ROW(rank_9),
    BAD_ROW(no_type),
    BAD_ROW(unknown_type),
    BAD_ROW(zero_dimension),
    BAD_ROW(too_many_bytes),
    BAD_ROW(shard_missing),
    BAD_ROW(no_shards),
    BAD_ROW(shard_of_unknown_ps),
    BAD_ROW(shards_with_gap),
    BAD_ROW(empty_shard),
    BAD_ROW(shard_past_the_end),
    BAD_ROW(huge_shard),
    BAD_ROW(two_shards_on_a_ps),
    BAD_ROW(unknown_optimizer),
    BAD_ROW(optimizer_of_integers),
    BAD_ROW(endless_rate),
    BAD_ROW(rate_that_is_none),
    BAD_ROW(negative_epsilon),
    BAD_ROW(negative_sum),
    BAD_ROW(unknown_initializer),
    BAD_ROW(bad_initializer),
    BAD_ROW(narrow_as_wide),
    BAD_ROW(narrow_integers),
    BAD_ROW(unknown_policy),
    BAD_ROW(loss_scale_of_several),
    BAD_ROW(loss_scale_of_rows),
    BAD_ROW(narrow_loss_scale),
    BAD_ROW(unknown_metric),
    BAD_ROW(metric_of_floats),
    BAD_ROW(lifecycle_of_dense_rows),
    BAD_ROW(probability_past_1),
    BAD_ROW(probability_that_is_none),
    BAD_ROW(count_without_age),
};

TEST(each_thing_that_is_wrong_is_told)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct coxi_variable v = dense();
        bad[i].change(&v);
        int r = coxi_variable_check(&v, N_PS);
        if (r != bad[i].code) {
            fail_msg("bad[%zu] (%s): %d, not %d", i, bad[i].text, r, bad[i].code);
        }
        assert_error_names(bad[i].text);
    }
}

TEST(a_name_that_is_too_long_is_refused_with_the_limit)
{
    char name[COXI_WIRE_NAME_MAX + 2];
    struct coxi_variable v = dense();
    memset(name, 'n', sizeof(name));
    name[COXI_WIRE_NAME_MAX + 1] = '\0';
    v.name = name;
    assert_code(COX_EINVAL, coxi_variable_check(&v, N_PS));
    assert_error_names("127");
}

TEST(a_table_has_rows_of_one_dimension_of_floats)
{
    struct coxi_variable v = table();
    v.shape[0]++;
    assert_code(COX_EINVAL, coxi_variable_check(&v, N_PS));
    assert_error_names("table 't'");
    v = table();
    v.dtype = COX_F64;
    assert_code(COX_EINVAL, coxi_variable_check(&v, N_PS));
    assert_error_names("table 't'");
    v = table();
    v.rank = 2;
    v.shape[0] = v.shape[1] = 2;
    assert_code(COX_EINVAL, coxi_variable_check(&v, N_PS));
    assert_error_names("table 't'");
}

/* ---- copies */

TEST(a_copy_is_equal_and_owns_what_it_points_to)
{
    char name[] = "layer/w";
    struct coxi_variable v = dense();
    struct coxi_variable *copy = NULL;
    v.name = name;
    assert_code(0, coxi_variable_copy(&v, &copy));
    assert_true(coxi_variable_equal(&v, copy));
    assert_int_equal(v.id, copy->id);
    name[0] = 'L';
    three[0].count = 99;
    assert_string_equal("layer/w", copy->name);
    assert_int_equal(4, copy->shards[0].count);
    coxi_variable_free(copy);
    v = table();
    assert_code(0, coxi_variable_copy(&v, &copy));
    assert_true(coxi_variable_equal(&v, copy));
    coxi_variable_free(copy);
    coxi_variable_free(NULL);
}

TEST(equal_looks_at_everything_but_the_id)
{
    struct coxi_variable a = dense();
    struct coxi_variable *b = NULL;
    assert_code(0, coxi_variable_copy(&a, &b));
    b->id++;
    b->shape[7]++; /* past its rank */
    assert_true(coxi_variable_equal(&a, b));
    coxi_variable_free(b);
#define DIFFERS(change)                                                                \
    do {                                                                               \
        assert_code(0, coxi_variable_copy(&a, &b));                                    \
        struct coxi_shard *shards = (struct coxi_shard *)b->shards;                    \
        (void)shards;                                                                  \
        change;                                                                        \
        assert_false(coxi_variable_equal(&a, b));                                      \
        coxi_variable_free(b);                                                         \
    } while (0)
    DIFFERS(b->name = "layer/v");
    DIFFERS(b->kind = COXI_KIND_TABLE);
    DIFFERS(b->dtype = COX_I32);
    DIFFERS(b->rank = 1);
    DIFFERS(b->shape[1] = 5);
    DIFFERS(b->n_shards = 2);
    DIFFERS(shards[2].ps = 7);
    DIFFERS(shards[1].begin++);
    DIFFERS(shards[0].count++);
    DIFFERS(b->optimizer.kind = COXI_OPTIMIZER_SGD);
    DIFFERS(b->optimizer.learning_rate *= 2);
    DIFFERS(b->optimizer.epsilon *= 2);
    DIFFERS(b->optimizer.initial_accumulator *= 2);
    DIFFERS(b->optimizer.clip_norm = 1);
    DIFFERS(b->optimizer.schedule.steps = 9);
    DIFFERS(b->initializer.kind = COXI_INIT_NORMAL);
    DIFFERS(b->initializer.a = 0);
    DIFFERS(b->initializer.b = 2);
    DIFFERS(b->initializer.seed++);
    DIFFERS(b->wire_dtype = COX_F16);
    DIFFERS(b->nonfinite = COXI_NONFINITE_ALLOW);
    DIFFERS(b->metric = COXI_METRIC_SUM);
    DIFFERS(b->lifecycle.admit_count = 1);
    DIFFERS(b->lifecycle.admit_probability = 0.5F);
    DIFFERS(b->lifecycle.evict_age = 1);
    DIFFERS(b->lifecycle.evict_count = 1);
    DIFFERS(b->lifecycle.evict_count_age = 1);
    DIFFERS(b->lifecycle.rows_max = 1);
#undef DIFFERS
}

/* ---- sizes and places */

TEST(sizes_follow_from_type_and_shape)
{
    struct coxi_variable v = dense();
    assert_int_equal(10, coxi_variable_rows(&v));
    assert_int_equal(16, coxi_variable_row_bytes(&v));
    assert_int_equal(160, coxi_variable_bytes(&v));
    v.rank = 1;
    v.dtype = COX_F16;
    assert_int_equal(2, coxi_variable_row_bytes(&v));
    assert_int_equal(20, coxi_variable_bytes(&v));
    v = table();
    v.shape[0] = 7;
    assert_int_equal(7, coxi_table_dim(&v));
    assert_int_equal(28, coxi_variable_row_bytes(&v));
}

TEST(the_shard_of_a_ps_is_found_where_there_is_one)
{
    struct coxi_variable v = dense();
    assert_ptr_equal(&three[0], coxi_variable_shard(&v, 2));
    assert_ptr_equal(&three[1], coxi_variable_shard(&v, 0));
    assert_null(coxi_variable_shard(&v, 3));
    v = table();
    assert_null(coxi_variable_shard(&v, 0));
}

TEST(keys_spread_evenly_over_any_number_of_ps)
{
    enum { EACH = 10000 };
    static const uint32_t numbers[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        uint32_t n = numbers[i];
        uint64_t counts[16] = {0};
        for (uint64_t key = 0; key < (uint64_t)EACH * n; key++) {
            uint32_t ps = coxi_key_ps(key, n);
            assert_true(ps < n);
            counts[ps]++;
        }
        for (uint32_t ps = 0; ps < n; ps++) {
            assert_in_range(counts[ps], EACH * 9 / 10, EACH * 11 / 10);
        }
    }
}

/* This determines the ps of a row, also in checkpoints, so it must never change. */
TEST(a_key_stays_on_its_ps)
{
    assert_int_equal(0, coxi_key_ps(0, 16));
    assert_int_equal((0xb456bcfc34c2cb2c >> 54) % 16, coxi_key_ps(1, 16));
    assert_int_equal((0x64b5720b4b825f21 >> 54) % 7, coxi_key_ps(UINT64_MAX, 7));
}
