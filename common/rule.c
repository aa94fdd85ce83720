/* See rule.h. Two tables have the numbers of optimizers and schedules, the kinds that
 * use each number, and its range; a third table has the state of each optimizer. */
#include "common/rule.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "schema/check.h"

#define O(kind) (1U << COXI_OPTIMIZER_##kind)
#define S(kind) (1U << COXI_SCHEDULE_##kind)

#define ALL        UINT32_MAX
#define ADAMS      (O(ADAM) | O(ADAMW))
#define ADAGRADS   (O(ADAGRAD) | O(ROWWISE_ADAGRAD))
#define VELOCITIES (O(MOMENTUM) | O(NESTEROV))
#define AVERAGES   (O(ADADELTA) | O(RMSPROP) | ADAMS)
/* optimizers that move values by a rate */
#define RULES (ALL & ~O(NONE) & ~O(LOSS_SCALE))
#define SCALE O(LOSS_SCALE)

/* A number and its range: finite, not negative, and ... */
struct number {
    const char *name;
    size_t offset;     /* in the optimizer or schedule */
    uint32_t users;    /* kinds that use it; it must be 0 for others */
    uint32_t positive; /* above 0 for these kinds */
    bool fraction;     /* below 1 */
};

static const struct number numbers[] = {
#define NUMBER(name) #name, offsetof(struct coxi_optimizer, name)
    {NUMBER(learning_rate), RULES, O(FTRL), false},
    {NUMBER(epsilon), ADAGRADS | AVERAGES, AVERAGES, false},
    {NUMBER(initial_accumulator), ADAGRADS | O(FTRL), 0, false},
    {NUMBER(momentum), VELOCITIES, 0, true},
    {NUMBER(rho), O(ADADELTA) | O(RMSPROP), 0, true},
    {NUMBER(beta1), ADAMS, 0, true},
    {NUMBER(beta2), ADAMS, 0, true},
    {NUMBER(beta), O(FTRL), 0, false},
    {NUMBER(l1), O(FTRL), 0, false},
    {NUMBER(l2), O(FTRL), 0, false},
    {NUMBER(weight_decay), RULES & ~O(FTRL), 0, false},
    {NUMBER(clip_value), RULES, 0, false},
    {NUMBER(clip_norm), RULES, 0, false},
    {NUMBER(growth_factor), SCALE, SCALE, false},
    {NUMBER(growth_interval), SCALE, SCALE, false},
#undef NUMBER
};

static const struct number schedule_numbers[] = {
#define NUMBER(name) "schedule." #name, offsetof(struct coxi_schedule, name)
    {NUMBER(end_rate), S(LINEAR) | S(POLYNOMIAL) | S(COSINE), 0, false},
    {NUMBER(power), S(POLYNOMIAL), S(POLYNOMIAL), false},
    {NUMBER(gamma), S(EXPONENTIAL) | S(STEP), S(EXPONENTIAL) | S(STEP), false},
#undef NUMBER
};

static const char *const names[] = {
    [COXI_OPTIMIZER_NONE] = "a variable without optimizer",
    [COXI_OPTIMIZER_SGD] = "SGD",
    [COXI_OPTIMIZER_ADAGRAD] = "Adagrad",
    [COXI_OPTIMIZER_MOMENTUM] = "momentum",
    [COXI_OPTIMIZER_NESTEROV] = "Nesterov",
    [COXI_OPTIMIZER_ROWWISE_ADAGRAD] = "row-wise Adagrad",
    [COXI_OPTIMIZER_ADADELTA] = "Adadelta",
    [COXI_OPTIMIZER_RMSPROP] = "RMSProp",
    [COXI_OPTIMIZER_ADAM] = "Adam",
    [COXI_OPTIMIZER_ADAMW] = "AdamW",
    [COXI_OPTIMIZER_FTRL] = "FTRL",
    [COXI_OPTIMIZER_LOSS_SCALE] = "a loss scale",
};

static const char *const schedule_names[] = {
    [COXI_SCHEDULE_CONSTANT] = "constant",       [COXI_SCHEDULE_LINEAR] = "linear",
    [COXI_SCHEDULE_POLYNOMIAL] = "polynomial",   [COXI_SCHEDULE_STEP] = "step",
    [COXI_SCHEDULE_EXPONENTIAL] = "exponential", [COXI_SCHEDULE_COSINE] = "cosine",
};

/* Checks a number. `who` is what the text calls its user: "Adam", "the linear
 * schedule". */
static int check_number(const struct number *number, const void *object, uint32_t kind,
                        const char *who)
{
    float x;
    memcpy(&x, (const char *)object + number->offset, sizeof(x));
    bool positive = (number->positive & kind) != 0;
    if (!isfinite(x) || x < 0 || (positive && x == 0) || (number->fraction && x >= 1)) {
        return coxi_error(COX_EINVAL, "%s is %g: %s takes a finite number %s 0%s",
                          number->name, (double)x, who,
                          positive ? "above" : "of at least",
                          number->fraction ? ", below 1" : "");
    }
    if ((number->users & kind) == 0 && x != 0) {
        return coxi_error(COX_EINVAL, "%s is %g, but %s has no use for it: leave it 0",
                          number->name, (double)x, who);
    }
    return 0;
}

static int check_schedule(const struct coxi_schedule *s)
{
    char who[64];
    if (s->kind >= COXI_SCHEDULE_END) {
        return coxi_error(COX_EINVAL, "%u is no schedule", s->kind);
    }
    (void)snprintf(who, sizeof(who), "the %s schedule", schedule_names[s->kind]);
    for (size_t i = 0; i < sizeof(schedule_numbers) / sizeof(*schedule_numbers); i++) {
        int r = check_number(&schedule_numbers[i], s, 1U << s->kind, who);
        if (r != 0) {
            return r;
        }
    }
    if (s->steps > INT64_MAX || s->warmup_steps > INT64_MAX) {
        return coxi_error(COX_EINVAL, "a schedule takes at most 2^63 - 1 steps");
    }
    if ((s->kind == COXI_SCHEDULE_CONSTANT) != (s->steps == 0)) {
        return coxi_error(COX_EINVAL, "schedule.steps is %llu: %s takes %s",
                          (unsigned long long)s->steps, who,
                          s->steps == 0 ? "at least 1" : "none");
    }
    return 0;
}

static int check_rate(const struct coxi_optimizer *o)
{
    uint32_t kind = 1U << o->kind;
    bool scheduled =
        o->schedule.kind != COXI_SCHEDULE_CONSTANT || o->schedule.warmup_steps != 0;
    if (scheduled && (kind & RULES & ~O(FTRL)) == 0) {
        return coxi_error(COX_EINVAL, "%s takes no schedule: %s", names[o->kind],
                          (kind & O(FTRL)) != 0 ? "its state depends on the rate"
                                                : "it has no learning rate");
    }
    return check_schedule(&o->schedule);
}

int coxi_optimizer_check_rate(const struct coxi_optimizer *o)
{
    return (1U << o->kind & RULES) == 0 || o->learning_rate > 0 ||
                   o->schedule.end_rate > 0
               ? 0
               : coxi_error(COX_EINVAL,
                            "learning_rate is 0: %s would change nothing; give it a "
                            "number above 0, or a schedule with an end_rate above 0",
                            names[o->kind]);
}

int coxi_optimizer_check(const struct coxi_optimizer *o)
{
    if (o->kind >= COXI_OPTIMIZER_END) {
        return coxi_error(COX_EINVAL, "%u is no optimizer", o->kind);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        int r = check_number(&numbers[i], o, 1U << o->kind, names[o->kind]);
        if (r != 0) {
            return r;
        }
    }
    if (o->kind == COXI_OPTIMIZER_LOSS_SCALE && o->growth_factor <= 1) {
        return coxi_error(COX_EINVAL,
                          "growth_factor is %g: a loss scale takes one above 1",
                          (double)o->growth_factor);
    }
    return check_rate(o);
}

static float state_limit(const struct coxi_optimizer *o)
{
    static const float root = 18446744073709551616.0F; /* 2^64 */
    uint32_t kind = 1U << o->kind;
    if ((kind & (ADAGRADS | AVERAGES | O(FTRL))) != 0) {
        return root;
    }
    return (kind & VELOCITIES) != 0 ? FLT_MAX * (1 - o->momentum) : INFINITY;
}

float coxi_optimizer_gradient_limit(const struct coxi_optimizer *o)
{
    float limit = state_limit(o);
    bool clipped = (o->clip_value > 0 && o->clip_value < limit) ||
                   (o->clip_norm > 0 && o->clip_norm < limit);
    return clipped ? INFINITY : limit;
}

const char *coxi_optimizer_name(const struct coxi_optimizer *optimizer)
{
    return names[optimizer->kind];
}

size_t coxi_optimizer_slots(const struct coxi_optimizer *optimizer)
{
    static const size_t slots[] = {
        [COXI_OPTIMIZER_NONE] = 0,     [COXI_OPTIMIZER_SGD] = 0,
        [COXI_OPTIMIZER_ADAGRAD] = 1,  [COXI_OPTIMIZER_MOMENTUM] = 1,
        [COXI_OPTIMIZER_NESTEROV] = 1, [COXI_OPTIMIZER_ROWWISE_ADAGRAD] = 0,
        [COXI_OPTIMIZER_ADADELTA] = 2, [COXI_OPTIMIZER_RMSPROP] = 1,
        [COXI_OPTIMIZER_ADAM] = 2,     [COXI_OPTIMIZER_ADAMW] = 2,
        [COXI_OPTIMIZER_FTRL] = 2,     [COXI_OPTIMIZER_LOSS_SCALE] = 1,
    };
    _Static_assert(sizeof(slots) / sizeof(*slots) == COXI_OPTIMIZER_END, "all of them");
    return optimizer->kind < COXI_OPTIMIZER_END ? slots[optimizer->kind] : 0;
}

bool coxi_optimizer_counts(const struct coxi_optimizer *optimizer)
{
    return (1U << optimizer->kind & ADAMS) != 0;
}

/* ---- rates */

const char *coxi_schedule_name(uint32_t kind)
{
    return kind < COXI_SCHEDULE_END ? schedule_names[kind] : "unknown";
}

struct coxi_rate coxi_rate_of(const struct coxi_optimizer *o)
{
    const struct coxi_schedule *s = &o->schedule;
    return (struct coxi_rate){{(double)o->learning_rate, (double)s->kind,
                               (double)s->end_rate, (double)s->power, (double)s->gamma,
                               (double)s->steps, (double)s->warmup_steps}};
}

/* True if the number is in [0, end) and has no fraction. */
static bool is_whole(double number, double end)
{
    return number >= 0 && number < end && floor(number) == number;
}

int coxi_rate_set(struct coxi_optimizer *optimizer, const struct coxi_rate *rate)
{
    /* 2^53: every integer below it is exact in a double */
    static const double counts_end = 9007199254740992.0;
    const double *n = rate->numbers;
    struct coxi_optimizer with = *optimizer;
    if (with.kind == COXI_OPTIMIZER_NONE || with.kind == COXI_OPTIMIZER_LOSS_SCALE ||
        with.kind == COXI_OPTIMIZER_FTRL || with.kind >= COXI_OPTIMIZER_END) {
        return coxi_error(COX_EINVAL, "%s takes no other learning rate%s",
                          coxi_optimizer_name(optimizer),
                          with.kind == COXI_OPTIMIZER_FTRL
                              ? ": its state depends on the one that it has"
                              : "");
    }
    if (!is_whole(n[1], COXI_SCHEDULE_END) || !is_whole(n[5], counts_end) ||
        !is_whole(n[6], counts_end)) {
        return coxi_error(COX_EINVAL,
                          "a schedule of kind %g with steps %g and "
                          "warmup_steps %g: there is none",
                          n[1], n[5], n[6]);
    }
    with.learning_rate = (float)n[0];
    with.schedule = (struct coxi_schedule){.kind = (uint32_t)n[1],
                                           .end_rate = (float)n[2],
                                           .power = (float)n[3],
                                           .gamma = (float)n[4],
                                           .steps = (uint64_t)n[5],
                                           .warmup_steps = (uint64_t)n[6]};
    int r = coxi_optimizer_check(&with);
    if (r == 0) {
        *optimizer = with;
    }
    return r;
}

bool coxi_optimizer_equal(const struct coxi_optimizer *a,
                          const struct coxi_optimizer *b)
{
    _Static_assert(sizeof(*a) == 16 * 4 + 4 * 4 + 2 * 8, "no padding: bytes compare");
    /* Compares the bits on purpose, so that a NaN equals itself:
     * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- state */

/*
 * The names of each optimizer's state: its slots, then the numbers for a row. The first
 * state starts at initial_accumulator, which is 0 for optimizers without it; the others
 * start at 0.
 */
static const char *const state_names[][COXI_STATES_MAX] = {
    [COXI_OPTIMIZER_NONE] = {NULL},
    [COXI_OPTIMIZER_SGD] = {NULL},
    [COXI_OPTIMIZER_ADAGRAD] = {"adagrad"},
    [COXI_OPTIMIZER_MOMENTUM] = {"momentum"},
    [COXI_OPTIMIZER_NESTEROV] = {"momentum"},
    [COXI_OPTIMIZER_ROWWISE_ADAGRAD] = {"rowwise_adagrad"},
    [COXI_OPTIMIZER_ADADELTA] = {"adadelta_squares", "adadelta_deltas"},
    [COXI_OPTIMIZER_RMSPROP] = {"rmsprop"},
    [COXI_OPTIMIZER_ADAM] = {"adam_m", "adam_v", "adam_t"},
    [COXI_OPTIMIZER_ADAMW] = {"adam_m", "adam_v", "adam_t"},
    [COXI_OPTIMIZER_FTRL] = {"ftrl_n", "ftrl_z"},
    [COXI_OPTIMIZER_LOSS_SCALE] = {"good_steps"},
};
_Static_assert(sizeof(state_names) / sizeof(*state_names) == COXI_OPTIMIZER_END,
               "all of them");

struct coxi_state_layout coxi_optimizer_layout(const struct coxi_variable *variable)
{
    const struct coxi_optimizer *o = &variable->optimizer;
    struct coxi_state_layout layout = {.n_slots = coxi_optimizer_slots(o)};
    size_t n = 0;
    for (; n < COXI_STATES_MAX && state_names[o->kind][n] != NULL; n++) {
        layout.states[n].name = state_names[o->kind][n];
        layout.states[n].start = n == 0 ? o->initial_accumulator : 0;
    }
    COXI_CHECK(n >= layout.n_slots);
    /* All rows of a dense variable have one t: the variable's step. */
    bool shares_t = coxi_optimizer_counts(o) && variable->kind == COXI_KIND_DENSE;
    layout.n_row = shares_t ? 0 : n - layout.n_slots;
    return layout;
}
