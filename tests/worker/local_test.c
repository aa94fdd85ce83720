/* Local steps: what they do to the copies, what is pushed, and what is not. */
#include <math.h>
#include <string.h>

#include "tests/common/rules.h"
#include "tests/worker/counted_commits.h"
#include "tests/worker/merged.h"

static const float one = 1;
static const float half = 0.5F;
static const float none = 0;

static void create(struct rig *rig, const char *table, const char *dense,
                   const struct coxi_optimizer *optimizer, uint32_t wire_dtype)
{
    struct coxi_variable t = table_of(table, 3);
    struct coxi_variable d = dense_of(dense, 10, 3);
    t.wire_dtype = d.wire_dtype = wire_dtype;
    t.optimizer = d.optimizer = *optimizer;
    t.initializer = d.initializer = (struct coxi_initializer){
        .kind = COXI_INIT_UNIFORM, .a = -1, .b = 1, .seed = 7};
    (void)rig_create(rig, &t, 0, 0);
    (void)rig_create(rig, &d, 0, rig->n_ps);
}

static const struct coxi_optimizer sgd = {.kind = COXI_OPTIMIZER_SGD,
                                          .learning_rate = 0.25F};

/* ---- against the ps: the same batches pushed one by one, each seen by the next */

static const uint64_t keys[MERGED_ROWS] = {7, 3, 7, 9, 0, 3, 8, 3, 9, 9, 2, 0};

/* Pushes the batches to `pushed`, and steps with them locally on `local`. */
static void assert_same(struct rig *rig, uint64_t closure, const char *pushed,
                        const char *local)
{
    float expected[MERGED_NUMBERS];
    float found[MERGED_NUMBERS];
    struct batches batches = {.variable = pushed,
                              .sizes = merged_sizes,
                              .n = MERGED_BATCHES,
                              .keys = keys,
                              .values = merged_gradients(),
                              .width = 3};
    (void)merged_run(rig, closure, &batches, MERGE_PUSH, 0);
    batches.variable = local;
    batches.scale = &one;
    size_t before = atomic_load(&commits.n_updates);
    (void)merged_run(rig, closure + 1, &batches, MERGE_LOCAL, 0);
    assert_true(atomic_load(&commits.n_updates) - before <= rig->n_ps);
    call_pull(rig, closure + 2, pushed, keys, MERGED_ROWS, expected, MERGED_NUMBERS);
    call_pull(rig, closure + 3, local, keys, MERGED_ROWS, found, MERGED_NUMBERS);
    assert_floats(expected, found, MERGED_NUMBERS, false);
}

/* From values and state that are new, local steps come to what the ps comes to. */
static void assert_same_rule(const struct coxi_optimizer *optimizer)
{
    struct rig rig;
    merged_open(&rig, 1);
    create(&rig, "t1", "d1", optimizer, 0);
    create(&rig, "t2", "d2", optimizer, 0);
    assert_same(&rig, 1, "t1", "t2");
    assert_same(&rig, 11, "d1", "d2");
    rig_close(&rig);
}

TEST(local_steps_apply_the_variables_own_rule)
{
    static const struct coxi_optimizer clipped[] = {
        {.kind = COXI_OPTIMIZER_SGD,
         .learning_rate = 0.1F,
         .clip_value = 0.5F,
         .weight_decay = 0.01F},
        {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.1F, .clip_norm = 0.5F},
    };
    for (size_t i = 0; i < RULES; i++) {
        if (each_rule[i].kind != COXI_OPTIMIZER_FTRL) { /* it takes no local steps */
            assert_same_rule(&each_rule[i]);
        }
    }
    for (size_t i = 0; i < sizeof(clipped) / sizeof(*clipped); i++) {
        assert_same_rule(&clipped[i]);
    }
}

TEST(one_local_step_of_sgd_is_a_push)
{
    struct rig rig;
    merged_open(&rig, 3);
    create(&rig, "t1", "d1", &sgd, 0);
    create(&rig, "t2", "d2", &sgd, 0);
    for (uint64_t closure = 1; closure < 100; closure += 20) {
        assert_same(&rig, closure, "t1", "t2");
        assert_same(&rig, closure + 10, "d1", "d2");
    }
    rig_close(&rig);
}

TEST(local_steps_of_whole_variables_and_slices_do_what_pushes_do)
{
    static const int64_t forms[] = {COX_ROWS_SLICE, COX_ROWS_ALL, COX_ROWS_LISTED,
                                    COX_ROWS_ALL};
    static const int64_t counts[] = {2, 4, 3, 4};
    static const uint64_t rows[] = {1, 2, 0, 1, 2, 3, 3, 0, 3, 0, 1, 2, 3};
    for (size_t first = 0; first < 2;
         first++) { /* the first form decides how it is kept */
        struct rig rig;
        float expected[4];
        float found[4];
        struct coxi_variable d = dense_of("d1", 4, 1);
        d.optimizer = (struct coxi_optimizer){.kind = COXI_OPTIMIZER_ADAM,
                                              .learning_rate = 0.1F,
                                              .epsilon = 1e-8F,
                                              .beta1 = 0.9F,
                                              .beta2 = 0.999F};
        merged_open(&rig, 1);
        (void)rig_create(&rig, &d, 0, 1);
        d.name = "d2";
        (void)rig_create(&rig, &d, 0, 1);
        size_t skipped = first == 0 ? 0 : 2;
        struct batches batches = {.variable = "d1",
                                  .sizes = counts + first,
                                  .n = 4 - first,
                                  .forms = forms + first,
                                  .keys = rows + skipped,
                                  .values = merged_gradients(),
                                  .width = 1};
        (void)merged_run(&rig, 1, &batches, MERGE_PUSH, 0);
        batches.variable = "d2";
        batches.scale = &one;
        (void)merged_run(&rig, 2, &batches, MERGE_LOCAL, 0);
        call_pull(&rig, 3, "d1", NULL, 0, expected, 4);
        call_pull(&rig, 4, "d2", NULL, 0, found, 4);
        assert_floats(expected, found, 4, false);
        rig_close(&rig);
    }
}

/* ---- copies */

/* The two batches, pushed as they are. */
static struct batches two_pushed(void)
{
    struct batches batches = merged_two;
    batches.scale = &one;
    return batches;
}

TEST(a_local_pull_sees_local_steps_and_a_new_step_begins_anew)
{
    const struct batches two = two_pushed();
    struct rig rig;
    merged_open_one(&rig);
    for (uint64_t closure = 1; closure <= 3; closure++) {
        const struct rig_done done = merged_run(&rig, closure, &two, MERGE_LOCAL, 0);
        const float *seen = rig_value(&done, "seen").data;
        assert_true(seen[0] == -2 * (float)(closure - 1) && seen[1] == seen[0] - 1);
    }
    assert_true(merged_value(&rig, 4) == -6);
    rig_close(&rig);
}

TEST(one_local_pull_takes_many_variables_and_pulls_each_row_once)
{
    struct rig rig;
    const struct call call = {.n = 0};
    const struct coxi_variable a = dense_of("a", 1, 2);
    const struct coxi_variable t = table_of("t", 2);
    /* row 9 is listed twice: 1 + 5 and 2 + 6 */
    static const float expected[] = {0,  0,  0,  0,  0,  0,  0,  0,
                                     -1, -2, -6, -8, -3, -4, -6, -8};
    merged_open(&rig, 2);
    (void)rig_create(&rig, &a, 0, 1);
    (void)rig_create(&rig, &t, 0, 0);
    const struct rig_done done = call_run(&rig, 1, "pull_both", &call, 0);
    assert_floats(expected, rig_value(&done, "seen").data, 16, true);
    const uint64_t names[] = {4, 9};
    float found[4];
    call_pull(&rig, 2, "t", names, 2, found, 4);
    assert_floats((const float[]){-6, -8, -12, -16}, found, 4, true);
    call_pull(&rig, 3, "a", NULL, 0, found, 2);
    assert_floats((const float[]){-2, -4}, found, 2, true);
    rig_close(&rig);
}

TEST(rows_that_no_local_step_changed_are_not_pushed)
{
    const struct call call = {.n = 0};
    const struct coxi_variable d = dense_of("d", 10, 1);
    const struct coxi_variable t = table_of("t", 1);
    float found[10];
    const float expected[10] = {[2] = -1, [7] = -1};
    struct rig rig;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &d, 0, 1);
    (void)rig_create(&rig, &t, 0, 0);
    (void)call_run(&rig, 1, "step_some", &call, 0); /* 2 rows of each, of 10 */
    assert_int_equal(2 * (16 + 8), atomic_load(&commits.bytes));
    call_pull(&rig, 2, "d", NULL, 0, found, 10);
    assert_floats(expected, found, 10, true);
    call_pull(&rig, 3, "t", (const uint64_t[]){2, 7, 3}, 3, found, 3);
    assert_floats((const float[]){-1, -1, 0}, found, 3, true);
    rig_close(&rig);
}

TEST(a_local_step_with_a_gradient_of_0_is_pushed)
{
    static const float zeros[] = {0, 0};
    struct rig rig;
    struct batches batches = two_pushed();
    merged_open_one(&rig);
    batches.values = zeros;
    (void)merged_run(&rig, 1, &batches, MERGE_LOCAL, 0);
    assert_int_equal(1,
                     atomic_load(&commits.n)); /* touched does not depend on values */
    rig_close(&rig);
}

/* ---- the difference */

TEST(a_difference_is_scaled)
{
    struct rig rig;
    struct batches batches = two_pushed();
    merged_open_one(&rig);
    batches.scale = &half;
    (void)merged_run(&rig, 1, &batches, MERGE_LOCAL, 0);
    assert_true(merged_value(&rig, 2) == -1);
    batches.scale = &none;
    (void)merged_run(&rig, 3, &batches, MERGE_LOCAL, 0);
    assert_true(merged_value(&rig, 4) == -1);
    rig_close(&rig);
}

TEST(a_difference_is_added_as_it_is_to_a_narrow_variable)
{
    /* BF16 has 256, but not 257: the pull of the second closure rounds */
    static const float values[] = {-256, -1};
    struct coxi_variable table = table_of("t", 1);
    struct rig rig;
    struct batches batches = two_pushed();
    table.wire_dtype = COX_BF16;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    batches.values = values;
    (void)merged_run(&rig, 1, &batches, MERGE_LOCAL, 0);
    batches.values = values + 1;
    batches.n = 1;
    (void)merged_run(&rig, 2, &batches, MERGE_LOCAL, 0);
    assert_true(merged_value(&rig, 3) == 258); /* 257 + 1, and not 256 + 1 */
    rig_close(&rig);
}

TEST(a_push_in_the_middle_ends_the_copies_and_the_next_pull_sees_it)
{
    const int64_t mode = MERGE_LOCAL;
    const struct batches two = two_pushed();
    struct rig rig;
    merged_open_one(&rig);
    struct call call = merged_call(&two, &mode);
    call_flag(&call, "flush");
    const struct rig_done done = call_run(&rig, 1, "batches", &call, 0);
    const float *seen = rig_value(&done, "seen").data;
    assert_true(seen[0] == 0 && seen[1] == -1);
    assert_int_equal(2, atomic_load(&commits.n));
    assert_true(merged_value(&rig, 2) == -2);
    rig_close(&rig);
}

TEST(the_rate_of_local_steps_can_be_set)
{
    const struct batches two = two_pushed();
    struct rig rig;
    struct batches batches = two_pushed();
    merged_open_one(&rig);
    batches.rate = &half;
    (void)merged_run(&rig, 1, &batches, MERGE_LOCAL, 0);
    assert_true(merged_value(&rig, 2) == -1);
    (void)merged_run(&rig, 3, &two, MERGE_LOCAL, 0); /* a step that does not set it */
    assert_true(merged_value(&rig, 4) == -3);
    rig_close(&rig);
}

/* ---- refused, and failing */

TEST(a_step_that_forgets_to_push_fails_and_leaves_nothing)
{
    const int64_t mode = MERGE_LOCAL;
    const struct batches two = two_pushed();
    struct rig rig;
    struct batches batches = two_pushed();
    merged_open_one(&rig);
    batches.scale = NULL;
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "2 local steps of 't'");
    call_fails(&rig, 2, "batches", &call, COX_ESTEP, "cox_local_push");
    (void)merged_run(&rig, 3, &two, MERGE_LOCAL, 0); /* nothing is left over */
    assert_true(merged_value(&rig, 4) == -2);
    rig_close(&rig);
}

TEST(local_steps_of_a_step_that_fails_leave_nothing)
{
    const int64_t mode = MERGE_LOCAL;
    const struct batches two = two_pushed();
    struct rig rig;
    merged_open_one(&rig);
    struct call call = merged_call(&two, &mode);
    call_flag(&call, "result");
    (void)call_run(&rig, 1, "batches", &call, COX_ESTEP);
    assert_int_equal(0, atomic_load(&commits.n));
    (void)merged_run(&rig, 2, &two, MERGE_LOCAL, 0);
    assert_true(merged_value(&rig, 3) == -2);
    rig_close(&rig);
}

TEST(a_local_step_of_rows_without_a_copy_is_refused)
{
    const int64_t mode = MERGE_LOCAL;
    const struct batches two = two_pushed();
    struct rig rig;
    merged_open_one(&rig);
    struct call call = merged_call(&two, &mode);
    call_flag(&call, "unpulled");
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "cox_local_pull");
    call_fails(&rig, 2, "batches_blindly", &call, COX_ESTEP, "local copy of 't'");
    call = (struct call){.n = 0};
    call_fails(&rig, 3, "step_other", &call, COX_ESTEP, "key 4 of 't'");
    rig_close(&rig);
}

TEST(local_steps_are_bounded_in_memory)
{
    enum { DIM = 1024, N = RIG_ROWS / (DIM * sizeof(float)) };
    struct coxi_variable table = table_of("t", DIM);
    struct rig rig;
    struct call call = {.n = 0};
    table.optimizer = (struct coxi_optimizer){
        .kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 0.1F, .epsilon = 1e-10F};
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    for (uint64_t closure = 1; closure <= 4; closure++) { /* the same every time */
        const int64_t n = closure % 2 == 0 ? N / 3 + 1 : N / 3 - 1;
        call.n = 0;
        call_number(&call, "rows", &n);
        if (closure % 2 == 0) {
            call_fails(&rig, closure, "pull_many", &call, COX_ESTEP, "--step-rows-max");
        } else {
            (void)call_run(&rig, closure, "pull_many", &call, 0);
        }
    }
    rig_close(&rig);
}

TEST(local_steps_whose_numbers_are_not_finite_are_refused_and_named)
{
    static const float endless[] = {1, INFINITY};
    static const float large[] = {3e38F, 3e38F};
    const int64_t mode = MERGE_LOCAL;
    const float infinity = INFINITY;
    struct rig rig;
    struct batches batches = two_pushed();
    merged_open_one(&rig);
    batches.values = endless;
    struct call call = merged_call(&batches, &mode);
    call_fails(&rig, 1, "batches", &call, COX_ENONFINITE,
               "gradient of a local step of table 't', key 3, is inf");
    call_fails(&rig, 2, "batches_blindly", &call, COX_ENONFINITE, "key 3");
    batches.values = large;
    call = merged_call(&batches, &mode);
    call_fails(&rig, 3, "batches", &call, COX_ENONFINITE,
               "difference by local steps of table 't', key 3");
    batches = two_pushed();
    batches.scale = &infinity;
    call = merged_call(&batches, &mode);
    call_fails(&rig, 4, "batches", &call, COX_ESTEP, "finite number");
    rig_close(&rig);
}

TEST(numbers_that_are_not_finite_pass_if_the_variable_allows_them)
{
    static const float endless[] = {1, INFINITY};
    struct coxi_variable table = table_of("t", 1);
    struct rig rig;
    struct batches batches = two_pushed();
    table.nonfinite = COXI_NONFINITE_ALLOW;
    merged_open(&rig, 1);
    (void)rig_create(&rig, &table, 0, 0);
    batches.values = endless;
    (void)merged_run(&rig, 1, &batches, MERGE_LOCAL, 0);
    assert_true(isinf(merged_value(&rig, 2)));
    rig_close(&rig);
}

TEST(what_has_no_rule_of_its_own_takes_no_local_steps)
{
    static const int64_t whole[] = {COX_ROWS_ALL};
    static const char *const why[] = {"without optimizer",
                                      "'ftrl' takes no local steps: FTRL",
                                      "'scale' takes no local steps"};
    static const char *const names[] = {"counter", "ftrl", "scale"};
    struct coxi_variable ftrl = dense_of("ftrl", 1, 1);
    const int64_t mode = MERGE_LOCAL;
    const struct coxi_variable scale = scale_of_8();
    struct rig rig;
    ftrl.optimizer =
        (struct coxi_optimizer){.kind = COXI_OPTIMIZER_FTRL, .learning_rate = 0.1F};
    merged_open(&rig, 1);
    (void)rig_counter(&rig, "counter", 0);
    (void)rig_create(&rig, &ftrl, 0, 1);
    (void)rig_create(&rig, &scale, 0, 1);
    for (uint64_t i = 0; i < 3; i++) {
        struct batches batches = two_pushed();
        batches.variable = names[i];
        batches.n = 1;
        batches.forms = whole;
        const struct call call = merged_call(&batches, &mode);
        call_fails(&rig, 1 + i, "batches", &call, COX_ESTEP, why[i]);
    }
    rig_close(&rig);
}

TEST(gradients_that_a_loss_scale_multiplies_are_for_the_ps)
{
    const int64_t local = MERGE_LOCAL;
    const struct batches two = two_pushed();
    const struct coxi_variable scale = scale_of_8();
    struct rig rig;
    merged_open_one(&rig);
    (void)rig_create(&rig, &scale, 0, 1);
    struct call call = merged_call(&two, &local);
    call_flag(&call, "scaled");
    call_fails(&rig, 1, "batches", &call, COX_ESTEP, "'scale'");
    rig_close(&rig);
}
