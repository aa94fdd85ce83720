/* Update rules with numbers that are not finite or too large; loss scales. */
#include <float.h>
#include <math.h>

#include "common/optimizer.h"
#include "common/rule.h"
#include "ps/dense_internal.h"
#include "tests/common/rules.h"
#include "tests/ps/rows.h"
#include "tests/ps/subject.h"
#include "tests/test.h"

/* ---- numbers that are not finite, and large ones */

/* Applies the gradients of two steps to a variable of one row of two numbers, which
 * starts at 1. */
static void after_two(const struct coxi_optimizer *o, const float g[2][2], float w[2])
{
    struct subject s;
    w[0] = w[1] = 1;
    subject_open(&s, o, 1, 2);
    update_rows(s.dense, 0, 1, COXI_OP_ASSIGN, w);
    push(&s, g[0]);
    push(&s, g[1]);
    read_rows(s.dense, &s.variable, 0, 1, w);
    coxi_dense_free(s.dense);
}

TEST(a_nan_that_is_applied_stays_in_its_value)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t rule = 0; rule < RULES; rule++) {
        const struct coxi_optimizer o = each_rule[rule];
        for (size_t i = 0; i < 3; i++) {
            const float g[2][2] = {{bad[i], 1}, {1, 1}};
            float w[2];
            after_two(&o, g, w);
            if (i == 0 ? !isnan(w[0]) : isfinite(w[0])) {
                fail_msg("rule %u masks %g: %g", o.kind, (double)bad[i], (double)w[0]);
            }
            bool by_row = o.kind == COXI_OPTIMIZER_ROWWISE_ADAGRAD;
            assert_true(by_row ? i > 0 || isnan(w[1]) : isfinite(w[1]));
        }
    }
}

TEST(a_norm_that_is_not_finite_makes_all_nan)
{
    static const float bad[] = {NAN, INFINITY};
    struct coxi_optimizer o = {
        .kind = COXI_OPTIMIZER_SGD, .learning_rate = 1, .clip_norm = 3};
    for (size_t i = 0; i < 2; i++) {
        const float g[2][2] = {{bad[i], 100}, {1, 1}};
        float w[2];
        after_two(&o, g, w);
        assert_true(isnan(w[0]) && isnan(w[1]));
        float row[2] = {1, 1};
        struct coxi_optimizer_step step;
        coxi_optimizer_begin(&o, 0, 0, &step);
        coxi_optimizer_row(&step, row, NULL, g[0], 2);
        assert_true(isnan(row[0]) && isnan(row[1]));
    }
    o.clip_value = 2; /* is applied before clip_norm, and leaves no infinities */
    const float g[2][2] = {{INFINITY, 100}, {0, 0}};
    float w[2];
    after_two(&o, g, w);
    assert_true(w[0] == -1 && w[1] == -1);
}

/* The state stays finite, and so does the value. */
TEST(a_square_that_overflows_ends_no_value)
{
    for (size_t rule = 1; rule < RULES; rule++) { /* all but SGD */
        const struct coxi_optimizer o = each_rule[rule];
        const float large[2] = {1e30F, 1e30F};
        float w[2];
        struct subject s;
        subject_open(&s, &o, 1, 2);
        for (size_t i = 0; i < 3; i++) {
            push(&s, large);
        }
        read_rows(s.dense, &s.variable, 0, 1, w);
        assert_true(isfinite(w[0]));
        size_t n_states = s.dense->layout.n_slots + s.dense->layout.n_row;
        for (size_t i = 0; i < n_states; i++) {
            assert_true(isfinite(s.dense->states[i][0]));
        }
        coxi_dense_free(s.dense);
    }
}

/* Two good steps in a row double the scale; a bad step halves it, down to 1. */
TEST(a_loss_scale_follows_its_steps)
{
    const struct coxi_optimizer scale = {
        .kind = COXI_OPTIMIZER_LOSS_SCALE, .growth_factor = 2, .growth_interval = 2};
    static const float told[] = {0, 0, 0, 1, 0, 0, NAN, 1, 1, 0, 0};
    static const float then[] = {4, 8, 8, 4, 4, 8, 4, 2, 1, 1, 2};
    float w[1] = {4};
    struct subject s;
    subject_open(&s, &scale, 1, 1);
    update_rows(s.dense, 0, 1, COXI_OP_ASSIGN, w);
    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
        push(&s, &told[i]);
        read_rows(s.dense, &s.variable, 0, 1, w);
        assert_true(w[0] == then[i]);
    }
    w[0] = 0.5F; /* below 1 it never rises because a step overflowed */
    update_rows(s.dense, 0, 1, COXI_OP_ASSIGN, w);
    push(&s, &told[3]);
    read_rows(s.dense, &s.variable, 0, 1, w);
    assert_true(w[0] == 0.5F);
    push(&s, &told[0]);
    push(&s, &told[0]);
    read_rows(s.dense, &s.variable, 0, 1, w);
    assert_true(w[0] == 1);
    w[0] = FLT_MAX / 1.5F;
    update_rows(s.dense, 0, 1, COXI_OP_ASSIGN, w);
    for (size_t i = 0; i < 4; i++) {
        push(&s, &told[0]);
    }
    read_rows(s.dense, &s.variable, 0, 1, w);
    assert_true(w[0] == FLT_MAX / 1.5F);
    coxi_dense_free(s.dense);
}

/* Clipping and decay see the gradient after it was unscaled. */
TEST(scaled_gradients_are_unscaled_before_all_else)
{
    const struct coxi_optimizer o = {.kind = COXI_OPTIMIZER_SGD,
                                     .learning_rate = 1,
                                     .weight_decay = 0.5F,
                                     .clip_value = 3,
                                     .clip_norm = 2};
    const float g[2] = {2 * 64, 1 * 64};
    const struct coxi_dense_rows rows = {NULL, 0, 1};
    float w[2] = {1, 1};
    struct subject s;
    subject_open(&s, &o, 1, 2);
    update_rows(s.dense, 0, 1, COXI_OP_ASSIGN, w);
    coxi_dense_push(s.dense, &rows,
                    &(struct coxi_dense_gradient){0, COX_F32, g, 64, NULL});
    read_rows(s.dense, &s.variable, 0, 1, w);
    float share = 2 / sqrtf(5);
    assert_true(fabsf(w[0] - (1 - 2 * share - 0.5F)) < 1e-6F);
    assert_true(fabsf(w[1] - (1 - share - 0.5F)) < 1e-6F);
    coxi_dense_free(s.dense);
}
