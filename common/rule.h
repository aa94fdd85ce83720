/*
 * Update rules, as every role uses them: the kinds of optimizers and schedules, and the
 * numbers that each takes. optimizer.h applies them, schedule.h computes rates.
 *
 * Pure functions; any thread.
 */
#ifndef COXI_COMMON_RULE_H
#define COXI_COMMON_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/wire.h"

enum coxi_optimizer_kind {
    COXI_OPTIMIZER_NONE = 0, /* gradients are refused */
    COXI_OPTIMIZER_SGD,
    COXI_OPTIMIZER_ADAGRAD,
    COXI_OPTIMIZER_MOMENTUM,
    COXI_OPTIMIZER_NESTEROV,
    COXI_OPTIMIZER_ROWWISE_ADAGRAD,
    COXI_OPTIMIZER_ADADELTA,
    COXI_OPTIMIZER_RMSPROP,
    COXI_OPTIMIZER_ADAM,
    COXI_OPTIMIZER_ADAMW,
    COXI_OPTIMIZER_FTRL,
    COXI_OPTIMIZER_LOSS_SCALE,
    COXI_OPTIMIZER_END,
};

enum coxi_schedule_kind {
    COXI_SCHEDULE_CONSTANT = 0,
    COXI_SCHEDULE_LINEAR,
    COXI_SCHEDULE_POLYNOMIAL,
    COXI_SCHEDULE_EXPONENTIAL,
    COXI_SCHEDULE_STEP,
    COXI_SCHEDULE_COSINE,
    COXI_SCHEDULE_END,
};

/*
 * COX_EINVAL: a number is not finite, is out of its range, or is set although this
 * optimizer or its schedule does not use it; the text names it. Here 0 means 0, not a
 * default: coordinator/variables/rules.h has replaced defaults.
 */
int coxi_optimizer_check(const struct coxi_optimizer *optimizer);

/* COX_EINVAL: the learning rate is 0 for ever. Called only when a variable is created,
 * because an old checkpoint may have such a variable. */
int coxi_optimizer_check_rate(const struct coxi_optimizer *optimizer);

/*
 * The least finite gradient that would overflow the rule's state; INFINITY: no gradient
 * does. For rules that sum or average squares it is 2^64, because no float holds its
 * square; for momentum it is the least number whose velocity would overflow. INFINITY
 * also for clipped gradients, which cannot overflow.
 */
float coxi_optimizer_gradient_limit(const struct coxi_optimizer *optimizer);

/* "Adam"; for COXI_OPTIMIZER_NONE "a variable without optimizer". */
const char *coxi_optimizer_name(const struct coxi_optimizer *optimizer);

/* Floats of state for each value, not counting the floats that a whole row has. */
size_t coxi_optimizer_slots(const struct coxi_optimizer *optimizer);

/*
 * A rate: the numbers of an optimizer that a client may change during the run. Messages
 * carry them, and checkpoints have them if they were changed, in this order:
 * learning_rate, and the schedule's kind, end_rate, power, gamma, steps, warmup_steps.
 */
enum { COXI_RATE_NUMBERS = 7 };
struct coxi_rate {
    double numbers[COXI_RATE_NUMBERS];
};

struct coxi_rate coxi_rate_of(const struct coxi_optimizer *optimizer);

/* Sets an optimizer's rate. COX_EINVAL as in coxi_optimizer_check, or because the
 * optimizer has no rate, or a state that depends on it (FTRL); then it is unchanged. */
int coxi_rate_set(struct coxi_optimizer *optimizer, const struct coxi_rate *rate);

/* "constant", "linear" ...; "unknown" for an undefined kind. */
const char *coxi_schedule_name(uint32_t kind);

enum { COXI_STATES_MAX = 3, COXI_SLOTS_MAX = 2 };

/* State that the ps keep beside the values. Checkpoints have it as
 * "<variable>/<name>". */
struct coxi_state {
    const char *name;
    float start;
};

/* The first n_slots states have a float for each value, the next n_row one for each
 * row. */
struct coxi_state_layout {
    struct coxi_state states[COXI_STATES_MAX];
    size_t n_slots;
    size_t n_row;
};

struct coxi_state_layout coxi_optimizer_layout(const struct coxi_variable *variable);

/*
 * True if the rule depends on the number of earlier updates (Adam's t). Each ps that
 * has a shard of a dense variable counts all its updates, also those that change only
 * other rows.
 */
bool coxi_optimizer_counts(const struct coxi_optimizer *optimizer);

/* True if all numbers have the same bits. */
bool coxi_optimizer_equal(const struct coxi_optimizer *a,
                          const struct coxi_optimizer *b);

#endif
