#include "common/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

/* Each optimizer with all the numbers that it takes, and their names. */
static const struct {
    struct coxi_optimizer optimizer;
    const char *takes;
} good[COXI_OPTIMIZER_END] = {
    [COXI_OPTIMIZER_NONE] = {{0}, ""},
    [COXI_OPTIMIZER_SGD] = {{.learning_rate = 1}, " weight_decay "},
    [COXI_OPTIMIZER_MOMENTUM] = {{.learning_rate = 1}, " momentum weight_decay "},
    [COXI_OPTIMIZER_NESTEROV] = {{.learning_rate = 1}, " momentum weight_decay "},
    [COXI_OPTIMIZER_ADAGRAD] = {{.learning_rate = 1},
                                " epsilon initial_accumulator weight_decay "},
    [COXI_OPTIMIZER_ROWWISE_ADAGRAD] = {{.learning_rate = 1},
                                        " epsilon initial_accumulator weight_decay "},
    [COXI_OPTIMIZER_ADADELTA] = {{.learning_rate = 1, .epsilon = 1e-6F},
                                 " epsilon rho weight_decay "},
    [COXI_OPTIMIZER_RMSPROP] = {{.learning_rate = 1, .epsilon = 1e-6F},
                                " epsilon rho weight_decay "},
    [COXI_OPTIMIZER_ADAM] = {{.learning_rate = 1, .epsilon = 1e-6F},
                             " epsilon beta1 beta2 weight_decay "},
    [COXI_OPTIMIZER_ADAMW] = {{.learning_rate = 1, .epsilon = 1e-6F},
                              " epsilon beta1 beta2 weight_decay "},
    [COXI_OPTIMIZER_LOSS_SCALE] = {{.growth_factor = 2, .growth_interval = 3},
                                   " growth_interval "},
    [COXI_OPTIMIZER_FTRL] = {{.learning_rate = 0.1F},
                             " initial_accumulator beta l1 l2 "},
};

static struct coxi_optimizer of(uint32_t kind)
{
    struct coxi_optimizer o = good[kind].optimizer;
    o.kind = kind;
    return o;
}

static const struct {
    const char *name;
    size_t offset;
    bool always;   /* every optimizer that moves values takes it */
    bool fraction; /* it must be below 1 */
} numbers[] = {
#define NUMBER(name) #name, offsetof(struct coxi_optimizer, name)
    {NUMBER(learning_rate), true, false},
    {NUMBER(epsilon), false, false},
    {NUMBER(initial_accumulator), false, false},
    {NUMBER(momentum), false, true},
    {NUMBER(rho), false, true},
    {NUMBER(beta1), false, true},
    {NUMBER(beta2), false, true},
    {NUMBER(beta), false, false},
    {NUMBER(l1), false, false},
    {NUMBER(l2), false, false},
    {NUMBER(weight_decay), false, false},
    {NUMBER(clip_value), true, false},
    {NUMBER(clip_norm), true, false},
    {NUMBER(growth_interval), false, false},
};
enum { N_NUMBERS = sizeof(numbers) / sizeof(*numbers) };

static int check_with(struct coxi_optimizer o, size_t number, float value)
{
    memcpy((char *)&o + numbers[number].offset, &value, sizeof(value));
    return coxi_optimizer_check(&o);
}

static void assert_einval(struct coxi_optimizer o, size_t number, float value)
{
    if (check_with(o, number, value) != COX_EINVAL) {
        fail_msg("optimizer %u takes %g as its %s", o.kind, (double)value,
                 numbers[number].name);
    }
    assert_error_names(numbers[number].name);
}

TEST(optimizers_take_the_numbers_that_they_use_and_no_others)
{
    for (uint32_t kind = 0; kind < COXI_OPTIMIZER_END; kind++) {
        struct coxi_optimizer o = of(kind);
        assert_code(0, coxi_optimizer_check(&o));
        for (size_t i = 0; i < N_NUMBERS; i++) {
            char word[64];
            (void)snprintf(word, sizeof(word), " %s ", numbers[i].name);
            bool always = numbers[i].always && kind != COXI_OPTIMIZER_LOSS_SCALE &&
                          kind != COXI_OPTIMIZER_NONE;
            if (always || strstr(good[kind].takes, word) != NULL) {
                assert_code(0, check_with(o, i, 0.5F));
            } else {
                assert_einval(o, i, 0.5F);
                assert_error_names("no use");
            }
        }
    }
}

TEST(numbers_out_of_range_are_einval_and_named)
{
    for (uint32_t kind = 0; kind < COXI_OPTIMIZER_END; kind++) {
        for (size_t i = 0; i < N_NUMBERS; i++) {
            assert_einval(of(kind), i, -0.5F);
            assert_einval(of(kind), i, NAN);
            assert_einval(of(kind), i, INFINITY);
            if (numbers[i].fraction) {
                assert_einval(of(kind), i, 1);
            }
        }
    }
}

TEST(what_a_rule_divides_by_must_not_be_0)
{
    static const uint32_t averages[] = {COXI_OPTIMIZER_ADADELTA, COXI_OPTIMIZER_RMSPROP,
                                        COXI_OPTIMIZER_ADAM, COXI_OPTIMIZER_ADAMW};
    for (size_t i = 0; i < 4; i++) {
        assert_einval(of(averages[i]), 1, 0);
    }
    assert_einval(of(COXI_OPTIMIZER_FTRL), 0, 0);
    assert_error_names("above 0");
}

TEST(a_loss_scale_grows_by_more_than_1)
{
    struct coxi_optimizer o = of(COXI_OPTIMIZER_LOSS_SCALE);
    o.growth_factor = 1;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    assert_error_names("growth_factor");
    o = of(COXI_OPTIMIZER_SGD);
    o.growth_factor = 2;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    assert_error_names("growth_factor");
}

TEST(unknown_kinds_are_einval)
{
    struct coxi_optimizer o = of(COXI_OPTIMIZER_SGD);
    o.kind = COXI_OPTIMIZER_END;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    assert_error_names("no optimizer");
    o.kind = UINT32_MAX;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    o = of(COXI_OPTIMIZER_SGD);
    o.schedule.kind = COXI_SCHEDULE_END;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    assert_error_names("no schedule");
}

TEST(schedules_take_what_they_use_in_its_range)
{
    static const struct {
        struct coxi_schedule schedule;
        const char *wrong; /* NULL: nothing */
    } cases[] = {
        {{.warmup_steps = 9}, NULL},
        {{COXI_SCHEDULE_LINEAR, 0.1F, 0, 0, 1, 9}, NULL},
        {{COXI_SCHEDULE_POLYNOMIAL, 0, 2, 0, 1, 0}, NULL},
        {{COXI_SCHEDULE_EXPONENTIAL, 0, 0, 0.9F, 1, 0}, NULL},
        {{COXI_SCHEDULE_STEP, 0, 0, 1.5F, INT64_MAX, INT64_MAX}, NULL},
        {{COXI_SCHEDULE_COSINE, 2, 0, 0, 1, 0}, NULL},
        {{.steps = 1}, "schedule.steps"},
        {{.end_rate = 1}, "schedule.end_rate"},
        {{COXI_SCHEDULE_LINEAR, 0, 0, 0, 0, 9}, "schedule.steps"},
        {{COXI_SCHEDULE_LINEAR, -1, 0, 0, 1, 0}, "schedule.end_rate"},
        {{COXI_SCHEDULE_LINEAR, 0, 1, 0, 1, 0}, "schedule.power"},
        {{COXI_SCHEDULE_LINEAR, 0, 0, 1, 1, 0}, "schedule.gamma"},
        {{COXI_SCHEDULE_POLYNOMIAL, 0, 0, 0, 1, 0}, "schedule.power"},
        {{COXI_SCHEDULE_POLYNOMIAL, 0, NAN, 0, 1, 0}, "schedule.power"},
        {{COXI_SCHEDULE_EXPONENTIAL, 0, 0, 0, 1, 0}, "schedule.gamma"},
        {{COXI_SCHEDULE_EXPONENTIAL, 0.1F, 0, 1, 1, 0}, "schedule.end_rate"},
        {{COXI_SCHEDULE_STEP, 0, 0, INFINITY, 1, 0}, "schedule.gamma"},
        {{COXI_SCHEDULE_COSINE, 0, 0, 0, UINT64_MAX, 0}, "steps"},
        {{COXI_SCHEDULE_COSINE, 0, 0, 0, 1, UINT64_MAX}, "steps"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct coxi_optimizer o = of(COXI_OPTIMIZER_SGD);
        o.schedule = cases[i].schedule;
        assert_code(cases[i].wrong == NULL ? 0 : COX_EINVAL, coxi_optimizer_check(&o));
        if (cases[i].wrong != NULL) {
            assert_error_names(cases[i].wrong);
        }
    }
}

TEST(a_rate_of_0_is_refused_unless_a_schedule_raises_it)
{
    for (uint32_t kind = 0; kind < COXI_OPTIMIZER_END; kind++) {
        struct coxi_optimizer o = of(kind);
        bool has = kind != COXI_OPTIMIZER_NONE && kind != COXI_OPTIMIZER_LOSS_SCALE;
        assert_code(0, coxi_optimizer_check_rate(&o));
        o.learning_rate = 0;
        assert_code(has ? COX_EINVAL : 0, coxi_optimizer_check_rate(&o));
        o.schedule.warmup_steps = 3;
        assert_code(has ? COX_EINVAL : 0, coxi_optimizer_check_rate(&o));
        o.schedule =
            (struct coxi_schedule){.kind = COXI_SCHEDULE_LINEAR, .end_rate = 0.5F};
        assert_code(0, coxi_optimizer_check_rate(&o));
    }
    const struct coxi_optimizer o = {.kind = COXI_OPTIMIZER_ADAM, .epsilon = 1};
    assert_code(COX_EINVAL, coxi_optimizer_check_rate(&o));
    assert_error_names(
        "learning_rate is 0: Adam would change nothing; give it a number "
        "above 0, or a schedule with an end_rate above 0");
}

TEST(what_has_no_rate_takes_no_schedule)
{
    static const uint32_t kinds[] = {COXI_OPTIMIZER_NONE, COXI_OPTIMIZER_LOSS_SCALE};
    static const char *const texts[] = {
        "a variable without optimizer takes no schedule: it has no learning rate",
        "a loss scale takes no schedule: it has no learning rate"};
    for (size_t i = 0; i < 2; i++) {
        struct coxi_optimizer o = of(kinds[i]);
        o.schedule.warmup_steps = 1;
        assert_code(COX_EINVAL, coxi_optimizer_check(&o));
        assert_error_names(texts[i]);
        o.schedule = (struct coxi_schedule){.kind = COXI_SCHEDULE_COSINE, .steps = 1};
        assert_code(COX_EINVAL, coxi_optimizer_check(&o));
        assert_error_names(texts[i]);
    }
}

TEST(ftrl_takes_no_schedule)
{
    struct coxi_optimizer o = of(COXI_OPTIMIZER_FTRL);
    o.schedule.warmup_steps = 1;
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
    assert_error_names("schedule");
    o.schedule = (struct coxi_schedule){.kind = COXI_SCHEDULE_LINEAR, .steps = 1};
    assert_code(COX_EINVAL, coxi_optimizer_check(&o));
}
