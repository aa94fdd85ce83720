/*
 * Update rules as every role sees them: which optimizers and schedules there are, and
 * which numbers each takes. The ps apply them: ps/optimizer.h, ps/schedule.h.
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
 * COX_EINVAL, naming the number: one that is not finite, is out of its range, or is set
 * although this optimizer or its schedule does not use it. Here 0 means 0; what it means
 * to a client is in coordinator/variables/rules.h.
 */
int coxi_optimizer_check(const struct coxi_optimizer *optimizer);

/* COX_EINVAL: an optimizer that is fine but for a learning rate that is 0 for ever. It is asked
 * where a variable is created alone: a checkpoint may hold one of before that was refused. */
int coxi_optimizer_check_rate(const struct coxi_optimizer *optimizer);

/*
 * A finite gradient of this size or more would overflow the state that the rule keeps
 * (INFINITY: none does): 2^64, whose square no float holds, where it sums or averages squares;
 * what the velocity of momentum adds up to. A gradient that is clipped first overflows nothing.
 */
float coxi_optimizer_gradient_limit(const struct coxi_optimizer *optimizer);

/* "Adam"; of no optimizer, "a variable without optimizer". */
const char *coxi_optimizer_name(const struct coxi_optimizer *optimizer);

/* Floats of state that the ps keep for each value, but for what they have of a row. */
size_t coxi_optimizer_slots(const struct coxi_optimizer *optimizer);

/*
 * What a client may change of an optimizer while it runs: the learning rate and its schedule, as
 * numbers that travel, and that a checkpoint has where they were changed, in this order:
 * learning_rate, and of the schedule kind, end_rate, power, gamma, steps, warmup_steps.
 */
enum { COXI_RATE_NUMBERS = 7 };
struct coxi_rate {
    double numbers[COXI_RATE_NUMBERS];
};

struct coxi_rate coxi_rate_of(const struct coxi_optimizer *optimizer);

/* Gives an optimizer that rate. COX_EINVAL as coxi_optimizer_check; and where the optimizer has
 * no rate, or a state that depends on it (FTRL). Then it is as it was. */
int coxi_rate_set(struct coxi_optimizer *optimizer, const struct coxi_rate *rate);

/* "constant", "linear" ...; of any other kind, "unknown". */
const char *coxi_schedule_name(uint32_t kind);

enum { COXI_STATES_MAX = 3, COXI_SLOTS_MAX = 2 };

/* What the ps keep beside values. Checkpoints have it as "<variable>/<name>". */
struct coxi_state {
    const char *name;
    float start;
};

/* The first n_slots hold a float for each value, the n_row after them one for each row. */
struct coxi_state_layout {
    struct coxi_state states[COXI_STATES_MAX];
    size_t n_slots;
    size_t n_row;
};

struct coxi_state_layout coxi_optimizer_layout(const struct coxi_variable *variable);

/* True where the rule depends on how many updates there were before (Adam's t): of a dense
 * variable they count on each ps that has a shard, whichever rows they change. */
bool coxi_optimizer_counts(const struct coxi_optimizer *optimizer);

/* True where all numbers have the same bits. */
bool coxi_optimizer_equal(const struct coxi_optimizer *a,
                          const struct coxi_optimizer *b);

#endif
