/* What a spec's optimizer and initializer become. */
#include "coordinator/rules.h"

#include <math.h>

#include "common/initializer.h"
#include "common/layout.h"
#include "common/rule.h"
#include "tests/client/crew.h"
#include "tests/test.h"

static struct coxi_optimizer optimizer_of(struct cox_optimizer o)
{
    const struct cox_initializer zeros = COX_INITIALIZER_INIT;
    struct coxi_variable v = {.kind = COXI_KIND_TABLE, .rank = 1, .shape = {4}};
    coxi_rules_set(&v, &o, &zeros);
    return v.optimizer;
}

TEST(zeros_are_the_defaults_that_the_header_tells)
{
    static const struct coxi_optimizer expected[] = {
        {.kind = COX_OPTIMIZER_NONE},
        {.kind = COX_SGD, .learning_rate = 0.5F},
        {.kind = COX_ADAGRAD, .learning_rate = 0.5F, .epsilon = 1e-10F},
        {.kind = COX_MOMENTUM, .learning_rate = 0.5F, .momentum = 0.9F},
        {.kind = COX_NESTEROV, .learning_rate = 0.5F, .momentum = 0.9F},
        {.kind = COX_ROWWISE_ADAGRAD, .learning_rate = 0.5F, .epsilon = 1e-10F},
        {.kind = COX_ADADELTA, .learning_rate = 0.5F, .epsilon = 1e-6F, .rho = 0.9F},
        {.kind = COX_RMSPROP, .learning_rate = 0.5F, .epsilon = 1e-8F, .rho = 0.99F},
        {.kind = COX_ADAM,
         .learning_rate = 0.5F,
         .epsilon = 1e-8F,
         .beta1 = 0.9F,
         .beta2 = 0.999F},
        {.kind = COX_ADAMW,
         .learning_rate = 0.5F,
         .epsilon = 1e-8F,
         .beta1 = 0.9F,
         .beta2 = 0.999F},
        {.kind = COX_FTRL, .learning_rate = 0.5F},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct coxi_optimizer made = optimizer_of((struct cox_optimizer){
            .kind = expected[i].kind, .learning_rate = expected[i].learning_rate});
        assert_true(coxi_optimizer_equal(&expected[i], &made));
        assert_code(0, coxi_optimizer_check(&made));
    }
}

TEST(numbers_that_are_given_are_taken)
{
    const struct cox_optimizer given = {.kind = COX_ADAMW,
                                        .learning_rate = 1,
                                        .epsilon = 2,
                                        .initial_accumulator = 3,
                                        .momentum = 4,
                                        .rho = 5,
                                        .beta1 = 6,
                                        .beta2 = 7,
                                        .beta = 8,
                                        .l1 = 9,
                                        .l2 = 10,
                                        .weight_decay = 11,
                                        .clip_value = 12,
                                        .clip_norm = 13,
                                        .growth_factor = 20,
                                        .growth_interval = 21,
                                        .schedule = {14, 15, 16, 17, 18, 19}};
    const struct coxi_optimizer taken = {
        COXI_OPTIMIZER_ADAMW,    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 21,
        {14, 15, 16, 17, 18, 19}};
    struct coxi_optimizer made = optimizer_of(given);
    assert_true(coxi_optimizer_equal(&taken, &made));
}

static void assert_glorot(enum coxi_kind kind, uint32_t rank, const uint64_t *shape,
                          double both)
{
    const struct cox_optimizer none = COX_OPTIMIZER_INIT;
    struct coxi_variable v = {.kind = kind, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        v.shape[i] = shape[i];
    }
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_GLOROT_UNIFORM, 0, 0, 9});
    assert_int_equal(COXI_INIT_UNIFORM, v.initializer.kind);
    assert_int_equal(9, v.initializer.seed);
    assert_true(fabs((double)v.initializer.b - sqrt(6 / both)) < 1e-6);
    assert_true(v.initializer.a == -v.initializer.b);
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_GLOROT_NORMAL, 0, 0, 9});
    assert_int_equal(COXI_INIT_NORMAL, v.initializer.kind);
    assert_true(v.initializer.a == 0);
    assert_true(fabs((double)v.initializer.b - sqrt(2 / both)) < 1e-6);
}

TEST(glorot_numbers_follow_from_the_shape)
{
    assert_glorot(COXI_KIND_DENSE, 1, (const uint64_t[]){50}, 100);
    assert_glorot(COXI_KIND_DENSE, 2, (const uint64_t[]){300, 100}, 400);
    assert_glorot(COXI_KIND_DENSE, 4, (const uint64_t[]){3, 5, 10, 20}, 15 * 30);
    assert_glorot(COXI_KIND_TABLE, 1, (const uint64_t[]){16}, 17);
}

TEST(shapes_that_are_none_do_no_harm)
{
    const struct cox_optimizer none = COX_OPTIMIZER_INIT;
    const struct cox_initializer glorot = {COX_GLOROT_NORMAL, 0, 0, 1};
    struct coxi_variable v = {.kind = COXI_KIND_DENSE, .rank = UINT32_MAX};
    coxi_rules_set(&v, &none, &glorot);
    assert_true(isfinite(v.initializer.b));
    v.rank = 0;
    coxi_rules_set(&v, &none, &glorot);
    assert_true(isfinite(v.initializer.b));
}

TEST(glorot_variables_start_spread_over_their_range)
{
    enum { IN = 60, OUT = 36 };
    static float w[IN * OUT];
    struct crew crew;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *variable;
    const double limit = 0.25; /* sqrt(6 / 96) */
    double squares = 0;
    crew_open(&crew, 2, 1, NULL, NULL);
    spec.name = "kernel";
    spec.dtype = COX_F32;
    spec.rank = 2;
    spec.shape[0] = IN;
    spec.shape[1] = OUT;
    spec.shards = 2;
    spec.initializer.kind = COX_GLOROT_UNIFORM;
    spec.initializer.seed = 5;
    assert_code(0, cox_variable_create(crew.c, &spec, &variable));
    assert_code(0, cox_variable_read(crew.c, variable, w, sizeof(w)));
    for (int i = 0; i < IN * OUT; i++) {
        assert_true(fabs((double)w[i]) <= limit);
        squares += (double)w[i] * (double)w[i];
    }
    assert_true(fabs(squares / (IN * OUT) - limit * limit / 3) < 0.002);
    crew_close(&crew);
}
