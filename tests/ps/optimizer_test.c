/* The update rules, against the formulas of optimizer.h in plain double arithmetic. */
#include <math.h>

#include "common/rand.h"
#include "ps/optimizer.h"
#include "tests/test.h"

enum { N = 37, STEPS = 100 };

static const struct coxi_optimizer none = {.kind = COXI_OPTIMIZER_NONE};
static const struct coxi_optimizer sgd = {.kind = COXI_OPTIMIZER_SGD,
                                          .learning_rate = 0.05F};
static const struct coxi_optimizer adagrad = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                              .learning_rate = 0.1F,
                                              .epsilon = 1e-3F,
                                              .initial_accumulator = 0.25F};

static void assert_close(double expected, double value)
{
    if (fabs(expected - value) > 1e-6 * fmax(fabs(expected), 1.0)) {
        fail_msg("%.9g is not %.9g", value, expected);
    }
}

static void fill(uint64_t *rng, float *values)
{
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)(coxi_rand_unit(rng) * 2 - 1);
    }
}

/* One step of the rule on one value, as the literature writes it. */
static void step_plainly(const struct coxi_optimizer *o, double *w, double *sum,
                         double g)
{
    if (o->kind == COXI_OPTIMIZER_SGD) {
        *w -= (double)o->learning_rate * g;
    } else {
        *sum += g * g;
        *w -= (double)o->learning_rate * g / (sqrt(*sum) + (double)o->epsilon);
    }
}

static void compare(const struct coxi_optimizer *o)
{
    float w[N];
    float slot[N];
    float g[N];
    double w_plain[N];
    double sum[N];
    uint64_t rng = 11;
    fill(&rng, w);
    for (size_t i = 0; i < N; i++) {
        w_plain[i] = (double)w[i];
        slot[i] = coxi_optimizer_slot_start(o);
        sum[i] = (double)o->initial_accumulator;
    }
    for (int step = 0; step < STEPS; step++) {
        fill(&rng, g);
        coxi_optimizer_apply(o, w, coxi_optimizer_slots(o) > 0 ? slot : NULL, g, N);
        for (size_t i = 0; i < N; i++) {
            step_plainly(o, &w_plain[i], &sum[i], (double)g[i]);
            assert_close(w_plain[i], (double)w[i]);
            if (coxi_optimizer_slots(o) > 0) {
                assert_true(fabs(sum[i] - (double)slot[i]) <= 1e-6 * sum[i]);
            }
        }
    }
}

TEST(sgd_follows_its_formula_for_100_steps)
{
    compare(&sgd);
}

TEST(adagrad_follows_its_formula_for_100_steps)
{
    compare(&adagrad);
}

TEST(adagrad_takes_no_step_for_a_gradient_of_zero)
{
    const struct coxi_optimizer bare = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                        .learning_rate = 1};
    float w[2] = {3, -4};
    float slot[2] = {0, 0};
    const float g[2] = {0, 0};
    coxi_optimizer_apply(&bare, w, slot, g, 2);
    assert_true(w[0] == 3 && w[1] == -4);
    assert_true(slot[0] == 0 && slot[1] == 0);
}

TEST(optimizers_touch_no_value_beyond_the_last)
{
    float w[N + 1];
    float slot[N + 1];
    float g[N + 1];
    for (size_t i = 0; i <= N; i++) {
        w[i] = slot[i] = g[i] = 1;
    }
    coxi_optimizer_apply(&sgd, w, NULL, g, N);
    coxi_optimizer_apply(&adagrad, w, slot, g, N);
    assert_true(w[N] == 1 && slot[N] == 1);
    assert_true(w[N - 1] < 1 && slot[N - 1] == 2);
}

TEST(optimizers_tell_their_slots_names_and_starts)
{
    assert_int_equal(0, coxi_optimizer_slots(&none));
    assert_int_equal(0, coxi_optimizer_slots(&sgd));
    assert_int_equal(1, coxi_optimizer_slots(&adagrad));
    assert_null(coxi_optimizer_slot_name(&none));
    assert_null(coxi_optimizer_slot_name(&sgd));
    assert_string_equal("adagrad", coxi_optimizer_slot_name(&adagrad));
    assert_true(coxi_optimizer_slot_start(&sgd) == 0);
    assert_true(coxi_optimizer_slot_start(&adagrad) == 0.25F);
}
