/* Gradients that a step accumulates: what is pushed, when, and what is not. */
#include <math.h>
#include <string.h>

#include "tests/worker/counted_commits.h"
#include "tests/worker/merged.h"

static const float one = 1;
static const float half = 0.5F;

/* A table and a dense variable of 3 numbers a row, cut over all ps, like `like`. */
static void create(struct rig *rig, const char *table, const char *dense,
                   const struct coxi_variable *like)
{
    struct coxi_variable t = table_of(table, 3);
    struct coxi_variable d = dense_of(dense, 40, 3);
    t.wire_dtype = d.wire_dtype = like->wire_dtype;
    t.optimizer = d.optimizer = like->optimizer;
    (void)rig_create(rig, &t, 0, 0);
    (void)rig_create(rig, &d, 0, rig->n_ps);
}

/* ---- K batches are one */

/* Rows that batches have in common, or that are listed twice in one. */
static const uint64_t keys[MERGED_ROWS] = {7, 3, 7, 39, 0, 3, 8, 3, 39, 39, 21, 0};

/* Pushes the batches as one to `big`, and accumulated to `merged`; asserts that both
 * have the same values. */
static void assert_same(struct rig *rig, uint64_t closure, const char *big,
                        const char *merged, const float *scale)
{
    static const int64_t all[] = {MERGED_ROWS};
    float expected[MERGED_NUMBERS];
    float found[MERGED_NUMBERS];
    float scaled[MERGED_NUMBERS];
    for (size_t i = 0; i < MERGED_NUMBERS; i++) {
        scaled[i] = merged_gradients()[i] * (scale != NULL ? *scale : 1);
    }
    const struct batches at_once = {.variable = big,
                                    .sizes = all,
                                    .n = 1,
                                    .keys = keys,
                                    .values = scaled,
                                    .width = 3};
    const struct batches parts = {.variable = merged,
                                  .sizes = merged_sizes,
                                  .n = MERGED_BATCHES,
                                  .keys = keys,
                                  .values = merged_gradients(),
                                  .width = 3,
                                  .scale = scale};
    (void)merged_run(rig, closure, &at_once, MERGE_PUSH, 0);
    size_t before = atomic_load(&commits.bytes);
    (void)merged_run(rig, closure + 1, &parts, MERGE_ACCUMULATE, 0);
    assert_true(atomic_load(&commits.bytes) - before <= 6 * (8 + 12 + 8));
    call_pull(rig, closure + 2, big, keys, MERGED_ROWS, expected, MERGED_NUMBERS);
    call_pull(rig, closure + 3, merged, keys, MERGED_ROWS, found, MERGED_NUMBERS);
    assert_floats(expected, found, MERGED_NUMBERS, true);
}

TEST(accumulated_batches_are_one_batch_bit_for_bit)
{
    for (uint32_t n_ps = 1; n_ps <= 3; n_ps += 2) {
        struct rig rig;
        const struct coxi_variable like = dense_of("", 1, 1);
        merged_open(&rig, n_ps);
        create(&rig, "t1", "d1", &like);
        create(&rig, "t2", "d2", &like);
        assert_same(&rig, 1, "t1", "t2", NULL);
        assert_same(&rig, 11, "d1", "d2", &one);
        assert_same(&rig, 21, "t1", "t2", &half);
        assert_same(&rig, 31, "d1", "d2", NULL);
        rig_close(&rig);
    }
}

TEST(accumulated_batches_are_one_step_of_the_optimizer)
{
    struct rig rig;
    struct coxi_variable like = dense_of("", 1, 1);
    like.optimizer = (struct coxi_optimizer){.kind = COXI_OPTIMIZER_ADAM,
                                             .learning_rate = 0.1F,
                                             .epsilon = 1e-8F,
                                             .beta1 = 0.9F,
                                             .beta2 = 0.999F};
    merged_open(&rig, 1);
    create(&rig, "t1", "d1", &like);
    create(&rig, "t2", "d2", &like);
    for (uint64_t closure = 1; closure < 100; closure += 20) {
        assert_same(&rig, closure, "t1", "t2", &one);
        assert_same(&rig, closure + 10, "d1", "d2", &one);
    }
    rig_close(&rig);
}

TEST(accumulated_sums_are_rounded_to_the_wire_type_once)
{
    /* BF16 has 256 and 258, but not 257: each 1 alone would be lost */
    static const float values[] = {256, 1, 1};
    static const uint64_t row[] = {5, 5, 5};
    static const int64_t each[] = {1, 1, 1};
    struct rig rig;
    float found = 0;
    struct coxi_variable table = table_of("t", 1);
    table.wire_dtype = COX_BF16;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    const struct batches batches = {.variable = "t",
                                    .sizes = each,
                                    .n = 3,
                                    .keys = row,
                                    .values = values,
                                    .width = 1};
    (void)merged_run(&rig, 1, &batches, MERGE_ACCUMULATE, 0);
    assert_int_equal(8 + 8, atomic_load(&commits.bytes));
    call_pull(&rig, 2, "t", row, 1, &found, 1);
    assert_true(found == -258);
    rig_close(&rig);
}

/* ---- forms of rows */

TEST(accumulated_rows_of_all_forms_are_summed_by_row)
{
    static const int64_t forms[][3] = {
        {COX_ROWS_ALL, COX_ROWS_SLICE, COX_ROWS_LISTED},
        {COX_ROWS_LISTED, COX_ROWS_SLICE, COX_ROWS_ALL},
        {COX_ROWS_SLICE, COX_ROWS_ALL, COX_ROWS_LISTED},
    };
    static const uint64_t rows[][3] = {[COX_ROWS_ALL] = {0, 1, 2},
                                       [COX_ROWS_SLICE] = {1, 2},
                                       [COX_ROWS_LISTED] = {2, 2}};
    static const int64_t n_rows[] = {
        [COX_ROWS_ALL] = 3, [COX_ROWS_SLICE] = 2, [COX_ROWS_LISTED] = 2};
    static const float values[] = {1, 1, 1, 1, 1, 1, 1};
    const float expected[3] = {-1, -2, -4};
    for (size_t order = 0; order < 3; order++) {
        struct rig rig;
        float found[3];
        uint64_t names[7] = {0};
        int64_t counts[3];
        size_t n = 0;
        const struct coxi_variable dense = dense_of("d", 3, 1);
        merged_open(&rig, 2);
        (void)rig_create(&rig, &dense, 0, 2);
        for (size_t i = 0; i < 3; i++) {
            int64_t form = forms[order][i];
            counts[i] = n_rows[form];
            memcpy(&names[n], rows[form], (size_t)n_rows[form] * sizeof(uint64_t));
            n += (size_t)n_rows[form];
        }
        const struct batches batches = {.variable = "d",
                                        .sizes = counts,
                                        .n = 3,
                                        .forms = forms[order],
                                        .keys = names,
                                        .values = values,
                                        .width = 1};
        (void)merged_run(&rig, 1, &batches, MERGE_ACCUMULATE, 0);
        call_pull(&rig, 2, "d", NULL, 0, found, 3);
        assert_floats(expected, found, 3, true);
        rig_close(&rig);
    }
}

TEST(accumulated_slices_that_follow_each_other_are_sent_without_a_list)
{
    static const int64_t forms[] = {COX_ROWS_SLICE, COX_ROWS_SLICE, COX_ROWS_SLICE};
    static const uint64_t rows[] = {4, 5, 6, 7, 4, 5};
    static const int64_t counts[] = {2, 2, 2};
    static const float values[] = {1, 1, 1, 1, 1, 1};
    const float expected[10] = {[4] = -2, -2, -1, -1};
    float found[10];
    struct rig rig;
    const struct coxi_variable dense = dense_of("d", 10, 1);
    merged_open(&rig, 1);
    (void)rig_create(&rig, &dense, 0, 1);
    const struct batches batches = {.variable = "d",
                                    .sizes = counts,
                                    .n = 3,
                                    .forms = forms,
                                    .keys = rows,
                                    .values = values,
                                    .width = 1};
    (void)merged_run(&rig, 1, &batches, MERGE_ACCUMULATE, 0);
    assert_int_equal(4 * sizeof(float), atomic_load(&commits.bytes));
    call_pull(&rig, 2, "d", NULL, 0, found, 10);
    assert_floats(expected, found, 10, true);
    rig_close(&rig);
}

/* ---- when they are pushed */

TEST(flush_pushes_what_is_accumulated_and_the_rest_comes_with_the_return)
{
    const int64_t mode = MERGE_ACCUMULATE;
    struct rig rig;
    merged_open_one(&rig);
    struct call call = merged_call(&merged_two, &mode);
    call_flag(&call, "flush");
    (void)call_run(&rig, 1, "batches", &call, 0);
    assert_int_equal(2, atomic_load(&commits.n)); /* two segments */
    assert_true(merged_value(&rig, 2) == -2);
    rig_close(&rig);
}

TEST(accumulated_gradients_of_a_step_that_fails_leave_nothing)
{
    const int64_t mode = MERGE_ACCUMULATE;
    struct rig rig;
    merged_open_one(&rig);
    struct call call = merged_call(&merged_two, &mode);
    call_flag(&call, "result");
    (void)call_run(&rig, 1, "batches", &call, COX_ESTEP);
    assert_int_equal(0, atomic_load(&commits.n));
    (void)merged_run(&rig, 2, &merged_two, MERGE_ACCUMULATE,
                     0); /* nothing is left over */
    assert_true(merged_value(&rig, 3) == -2);
    rig_close(&rig);
}

/* ---- refused */

TEST(accumulated_sum_that_is_not_finite_is_refused_and_named)
{
    static const float values[] = {3e38F, 3e38F};
    const int64_t mode = MERGE_ACCUMULATE;
    struct rig rig;
    merged_open_one(&rig);
    struct batches batches = merged_two;
    batches.values = values;
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ENONFINITE, "table 't', key 3");
    batches.scale = &half; /* the sum is infinite already */
    call = merged_call(&batches, &mode);
    call_fails(&rig, 2, "batches", &call, COX_ENONFINITE, "table 't', key 3");
    const float endless = INFINITY;
    batches = merged_two;
    batches.scale = &endless;
    call = merged_call(&batches, &mode);
    call_fails(&rig, 3, "batches", &call, COX_ESTEP, "finite number");
    rig_close(&rig);
}

TEST(accumulating_more_than_the_limit_fails_and_says_what_to_do)
{
    enum { DIM = 1024, N = RIG_ROWS / (DIM * sizeof(float)) };
    static float values[N * DIM];
    static uint64_t names[N];
    static int64_t counts[N];
    const struct coxi_variable table = table_of("t", DIM);
    const int64_t mode = MERGE_ACCUMULATE;
    struct rig rig;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    for (size_t i = 0; i < N; i++) {
        counts[i] = 1;
        names[i] = i;
    }
    struct batches batches = {.variable = "t",
                              .sizes = counts,
                              .n = N,
                              .keys = names,
                              .values = values,
                              .width = DIM};
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "--step-rows-max");
    call_fails(&rig, 2, "batches_blindly", &call, COX_ESTEP, "--step-rows-max");
    /* what fits, fits every time; rows that are there already take no more */
    batches.n = N - 2;
    call = merged_call(&batches, &mode);
    (void)call_run(&rig, 3, "batches", &call, 0);
    (void)call_run(&rig, 4, "batches", &call, 0);
    for (size_t i = 0; i < N; i++) {
        names[i] = i % 7;
    }
    batches.n = N;
    call = merged_call(&batches, &mode);
    (void)call_run(&rig, 5, "batches", &call, 0);
    rig_close(&rig);
}

TEST(a_flush_makes_room_to_accumulate_again)
{
    enum { DIM = 1024, N = RIG_ROWS / (DIM * sizeof(float)) };
    static float values[N * DIM];
    static uint64_t names[N];
    static const int64_t counts[] = {N / 2, N / 2};
    const struct coxi_variable table = table_of("t", DIM);
    const int64_t mode = MERGE_ACCUMULATE;
    struct rig rig;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    for (size_t i = 0; i < N; i++) {
        names[i] = i;
    }
    const struct batches batches = {.variable = "t",
                                    .sizes = counts,
                                    .n = 2,
                                    .keys = names,
                                    .values = values,
                                    .width = DIM};
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "--step-rows-max");
    call_flag(&call, "flush");
    (void)call_run(&rig, 2, "batches", &call, 0);
    rig_close(&rig);
}

TEST(accumulated_gradients_are_multiplied_by_the_loss_scale_like_others)
{
    const int64_t mode = MERGE_ACCUMULATE;
    const struct coxi_variable scale = scale_of_8();
    struct rig rig;
    merged_open_one(&rig);
    (void)rig_create(&rig, &scale, 0, 1);
    struct call call = merged_call(&merged_two, &mode);
    call_flag(&call, "scaled");
    (void)call_run(&rig, 1, "batches", &call, 0);
    assert_true(merged_value(&rig, 2) == -0.25F); /* 1 + 1, by 8 */
    call = merged_call(&merged_two, &mode);
    call_flag(&call, "late");
    call_fails(&rig, 3, "batches", &call, COX_ESTEP, "before the first gradient");
    rig_close(&rig);
}

TEST(accumulating_what_cannot_be_pushed_is_refused)
{
    static const uint64_t beyond[] = {0, 40};
    const int64_t mode = MERGE_ACCUMULATE;
    const struct coxi_variable like = dense_of("", 1, 1);
    const struct coxi_variable scale = scale_of_8();
    struct rig rig;
    merged_open(&rig, 1);
    create(&rig, "t", "d", &like);
    (void)rig_counter(&rig, "counter", 0);
    (void)rig_create(&rig, &scale, 0, 1);
    struct batches batches = merged_two;
    batches.variable = "counter";
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "no optimizer");
    batches.variable = "scale";
    call = merged_call(&batches, &mode);
    call_fails(&rig, 2, "batches", &call, COX_ESTEP, "'scale'");
    batches = (struct batches){.variable = "d",
                               .sizes = merged_each,
                               .n = 2,
                               .keys = beyond,
                               .values = merged_gradients(),
                               .width = 3};
    call = merged_call(&batches, &mode);
    call_fails(&rig, 3, "batches_blindly", &call, COX_ESTEP, "no row 40");
    static const int64_t whole[] = {COX_ROWS_ALL, COX_ROWS_ALL};
    batches = merged_two;
    batches.forms = whole;
    call = merged_call(&batches, &mode);
    call_fails(&rig, 4, "batches_blindly", &call, COX_ESTEP, "needs keys");
    rig_close(&rig);
}
