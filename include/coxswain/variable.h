/*
 * What variables and tables are made of: optimizers and their schedules, initializers,
 * shards, lifecycles. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_VARIABLE_H
#define COXSWAIN_VARIABLE_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a ps does with a gradient g of a value w. r is the learning rate at that update.
 *
 *   kind                  rule                                         numbers, state
 *   COX_SGD               w -= r g
 *   COX_MOMENTUM          u = momentum u + g;  w -= r u                momentum; 1
 *   COX_NESTEROV          u = momentum u + g;  w -= r (g + momentum u) momentum; 1
 *   COX_ADAGRAD           s += g^2;  w -= r g / (sqrt(s) + epsilon)    initial_accumulator,
 *                                                                      epsilon; 1
 *   COX_ROWWISE_ADAGRAD   the same, s one number for a row: of the     the same; 1 a row
 *                         mean of its g^2
 *   COX_RMSPROP           s = rho s + (1 - rho) g^2;                   rho, epsilon; 1
 *                         w -= r g / (sqrt(s) + epsilon)
 *   COX_ADADELTA          s = rho s + (1 - rho) g^2;                   rho, epsilon; 2
 *                         d = g sqrt(x + epsilon) / sqrt(s + epsilon);
 *                         x = rho x + (1 - rho) d^2;  w -= r d
 *   COX_ADAM              m = beta1 m + (1 - beta1) g;                 beta1, beta2,
 *                         v = beta2 v + (1 - beta2) g^2;               epsilon; 2, of a
 *                         w -= r m' / (sqrt(v') + epsilon),            table 1 a row more
 *                         m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
 *   COX_ADAMW             the same, after w -= r weight_decay w        the same
 *   COX_FTRL              FTRL-proximal, see below                     beta, l1, l2,
 *                                                                      initial_accumulator;
 *                                                                      2
 *   COX_LOSS_SCALE        see below                                    growth_factor,
 *                                                                      growth_interval; 1
 *
 * These are PyTorch's rules (RMSProp's rho is its alpha, Adagrad's initial_accumulator its
 * initial_accumulator_value), but FTRL: that is Keras's, with its names' regularization
 * strengths as l1 and l2 and a learning_rate_power of -0.5: z, n start at 0 and at
 * initial_accumulator, then z += g - (sqrt(n + g^2) - sqrt(n)) / r w;  n += g^2;
 * w = 0 where |z| <= l1, else (sign(z) l1 - z) / ((beta + sqrt(n)) / r + 2 l2).
 * What w starts with, or is assigned, is forgotten with the next gradient: begin at zeros.
 *
 * COX_LOSS_SCALE is for a variable that steps multiply their loss by, so that small
 * gradients survive a narrow type (cox_step_loss_scale). Its "gradient" is 0 after a step
 * whose gradients were finite, anything else after one whose were not: then w becomes
 * w / growth_factor, but not less than 1 (a w below 1 stays); after growth_interval good
 * steps in a row, w growth_factor. Begin at a constant, like 65536. It is a dense variable
 * of one number, shape {1}, without wire_dtype and schedule; others are COX_EINVAL.
 * (torch.amp.GradScaler's rule, which knows no least.)
 *
 * State is what a ps keeps beside the values, in floats for each value; checkpoints hold
 * it. A row is a table's, or one of a dense variable's first axis. A table's rule is lazy: a row
 * and its state change only when a gradient of that row comes, and t counts those of the row. A
 * dense variable's t counts the gradients that were pushed to any of its rows, the same on each
 * ps that has a shard.
 *
 * Numbers that are 0 stand for a default where it is told; give a tiny one for none
 * (1e-30). rho, beta1 and beta2 stand for the decimal number of fewest digits that rounds to
 * them: 0.999F is 0.999, and 1 - beta2 is 0.001 in double before it is rounded.
 * docs/optimizers.md has all of this in one table, with the names of the state in checkpoints.
 * A number that the rule does not use must be 0, and so must all numbers of
 * COX_OPTIMIZER_NONE. A learning_rate of 0 is refused, unless a schedule has an end_rate
 * above 0.
 */
enum cox_optimizer_kind {
    COX_OPTIMIZER_NONE = 0, /* takes no gradients */
    COX_SGD = 1,
    COX_ADAGRAD = 2,
    COX_MOMENTUM = 3,
    COX_NESTEROV = 4,
    COX_ROWWISE_ADAGRAD = 5,
    COX_ADADELTA = 6,
    COX_RMSPROP = 7,
    COX_ADAM = 8,
    COX_ADAMW = 9,
    COX_FTRL = 10,
    COX_LOSS_SCALE = 11,
};

/*
 * How the learning rate changes: by the place s of the closure that pushes in the run. The
 * run's first closure has s = 0; each further one, and each write of the client (assign, add,
 * rate, create), whatever variable it is about, counts 1. So s is the same on every ps, for a
 * second attempt, and where a closure runs again after a loss. It goes on where a client goes on
 * from a checkpoint, or loads one with its state (cox_checkpoint_load). A step that counts
 * otherwise says its s: cox_step_rate_step.
 *
 * In the first warmup_steps the rate rises from 0: learning_rate * s / warmup_steps; then
 * these count, with s from the end of the warm-up. From `steps` on linear, polynomial and
 * cosine stay at end_rate.
 *
 *   COX_SCHEDULE_CONSTANT     learning_rate
 *   COX_SCHEDULE_LINEAR       learning_rate to end_rate
 *   COX_SCHEDULE_POLYNOMIAL   end_rate + (learning_rate - end_rate) (1 - s / steps)^power
 *   COX_SCHEDULE_EXPONENTIAL  learning_rate gamma^(s / steps)
 *   COX_SCHEDULE_STEP         the same, s / steps rounded down
 *   COX_SCHEDULE_COSINE       end_rate + (learning_rate - end_rate)
 *                             (1 + cos(pi s / steps)) / 2
 *
 * All but constant need steps; a number that is not used must be 0. FTRL and COX_LOSS_SCALE
 * take none.
 */
enum cox_schedule_kind {
    COX_SCHEDULE_CONSTANT = 0,
    COX_SCHEDULE_LINEAR = 1,
    COX_SCHEDULE_POLYNOMIAL = 2,
    COX_SCHEDULE_EXPONENTIAL = 3,
    COX_SCHEDULE_STEP = 4,
    COX_SCHEDULE_COSINE = 5,
};

struct cox_schedule {
    uint32_t kind; /* enum cox_schedule_kind */
    float end_rate;
    float power;
    float gamma;
    uint64_t steps;
    uint64_t warmup_steps;
};

/*
 * Before the rule a gradient is clipped by value, then by norm, then weight_decay * w is
 * added to it (not so with COX_ADAMW, whose decay is in its rule).
 */
struct cox_optimizer {
    uint32_t kind; /* enum cox_optimizer_kind */
    float learning_rate;
    float epsilon; /* 0: 1e-10 for Adagrad, 1e-6 for Adadelta, 1e-8 for the others */
    float initial_accumulator;
    float momentum;     /* 0: 0.9 */
    float rho;          /* 0: 0.9 for Adadelta, 0.99 for RMSProp */
    float beta1;        /* 0: 0.9 */
    float beta2;        /* 0: 0.999 */
    float beta;         /* FTRL */
    float l1;           /* FTRL */
    float l2;           /* FTRL: l2 w^2 is added to the loss */
    float weight_decay; /* not for FTRL */
    float clip_value;   /* each number of a gradient to at most that; 0: as it is */
    float clip_norm;    /* the Euclidean norm of a table's row, or of what a ps has of a
                           dense gradient, to at most that; 0: as it is */
    float growth_factor;   /* 0: 2 */
    float growth_interval; /* 0: 2000 */
    struct cox_schedule schedule;
};
#define COX_OPTIMIZER_INIT                                                             \
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0}}

/*
 * What is there before any update: numbers that depend on the seed and the place (a
 * table's key and column, a dense variable's element), on nothing else. A seed of 0 is made
 * from the run's (cox_options.seed) and the variable's name, so that variables of equal specs
 * begin differently, and each run of a program the same way unless it has another seed. Two
 * variables that are given one seed, other than 0, begin with the same numbers.
 *
 * Glorot, Bengio 2010: the uniform one in [-l, l) with l = sqrt(6 / (in + out)), the
 * normal one of deviation sqrt(2 / (in + out)). Of a dense variable, the last axis is
 * `out`, the one before it `in`, both times the elements of the axes before these; one of
 * rank 1 counts as both. A table's row is what leads from 1 key to dim values.
 */
enum cox_initializer_kind {
    COX_ZEROS = 0,            /* a number that is not named must be 0 */
    COX_CONSTANT = 1,         /* a */
    COX_UNIFORM = 2,          /* in [a, b) */
    COX_NORMAL = 3,           /* mean a, standard deviation b */
    COX_TRUNCATED_NORMAL = 4, /* the same, redrawn where it is beyond 2 b of a */
    COX_GLOROT_UNIFORM = 5,
    COX_GLOROT_NORMAL = 6,
};

struct cox_initializer {
    uint32_t kind; /* enum cox_initializer_kind */
    float a;
    float b;
    uint64_t seed; /* 0: of the run's seed and the variable's name */
};
#define COX_INITIALIZER_INIT {0, 0, 0, 0}

/*
 * What becomes of gradients with a number that is not finite, or that is finite and would
 * overflow what the rule keeps: 2^64 (1.8e19) and more, whose squares are too large, for
 * Adagrad, RMSProp, Adadelta, Adam, AdamW and FTRL; 3.4e38 (1 - momentum) and more for
 * momentum and Nesterov. With a clip_value or clip_norm below that, only numbers that are
 * not finite count.
 *
 * Rejected: the step fails with COX_ENONFINITE, naming variable and row, and nothing of it
 * is applied. Allowed: they are applied. By every rule a NaN makes the value NaN, and an
 * infinity makes it infinite or NaN. With clip_norm one such number makes all values NaN
 * that are clipped together with it (clip_value comes before, and bounds infinities).
 *
 * The same goes for pulls by steps of a variable with a wire_dtype: a number that is infinite
 * in that type, like any beyond 65504 in F16, fails the pull with COX_ENONFINITE, or is
 * pulled. cox_stats counts them either way (pulled_infinite).
 */
enum cox_nonfinite {
    COX_NONFINITE_REJECT = 0,
    COX_NONFINITE_ALLOW = 1,
};

/*
 * How gradients are rounded to a wire_dtype. To the nearest: each has an error of the same
 * sign every time, and what is too small for the type is always 0. Stochastic: up or down by
 * chance, so that the mean over steps is right, at some nanoseconds a number; drawn from
 * run, closure and row, so that every attempt draws the same. What steps pull is rounded to
 * the nearest either way.
 */
enum cox_rounding {
    COX_ROUND_NEAREST = 0,
    COX_ROUND_STOCHASTIC = 1,
};

/*
 * A dense variable: rank 1 or more, no dimension 0; optimizers and non-zero start: F32.
 *
 * It may be cut along its first axis into shards on different ps, of rows / n rows each
 * and one more in the first rows % n ("div"); to its users it is one all the same. How
 * many shards: `shards`, but no more than there are ps or rows. Where that is 0, as few as
 * keep each at shard_max_bytes or less, if that is given (COX_EINVAL: there are not enough
 * ps or rows for that); else as many as leave each shard_min_bytes or more.
 */
struct cox_variable_spec {
    size_t size;
    const char *name; /* 1 to COX_NAME_MAX bytes of UTF-8; see cox_variable_create */
    uint32_t dtype;   /* enum cox_dtype */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint32_t shards;
    struct cox_optimizer optimizer;
    struct cox_initializer initializer;
    uint64_t shard_min_bytes; /* 0: 262144 */
    uint64_t shard_max_bytes; /* 0: no limit */
    uint32_t wire_dtype; /* COX_BF16 or COX_F16: what steps pull of an F32 variable, and
                                 the gradients they push, are rounded to that type on their
                                 way, at half the bytes; 0: they are not */
    uint32_t nonfinite;  /* enum cox_nonfinite */
    uint32_t wire_rounding; /* enum cox_rounding; 0 without a wire_dtype */
};
#define COX_VARIABLE_SPEC_INIT                                                         \
    {sizeof(struct cox_variable_spec),                                                 \
     NULL,                                                                             \
     0,                                                                                \
     0,                                                                                \
     {0, 0, 0, 0, 0, 0, 0, 0},                                                         \
     0,                                                                                \
     COX_OPTIMIZER_INIT,                                                               \
     COX_INITIALIZER_INIT,                                                             \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0}

/*
 * Which rows a table makes, and which it drops again; all 0: a row for every key that is
 * updated, for ever. A row that is not there, not yet or no more, reads as its initial
 * values and costs nothing; what is pushed to it is forgotten (an add or assign makes it).
 * Ages count the gradient updates of the table that have reached the ps of the row. Each ps
 * decides for its own rows.
 */
struct cox_lifecycle {
    uint32_t admit_count; /* a key gets its row with its admit_count-th update. Counted
                                approximately, in bounded memory: a key may be admitted
                                early, never late; 0: with the first */
    float admit_probability; /* ... or each of its updates makes it with this
                                probability, above 0, below 1; drawn from run, closure and
                                key. 0: always. Where both are given, both must agree */
    uint64_t evict_age; /* rows that no gradient has come to for so long go; 0: none */
    uint32_t evict_count;     /* rows that have had fewer gradients than this ... */
    uint64_t evict_count_age; /* ... so long after they were made go; 0: none */
    uint64_t
        rows_max; /* on each ps: where there would be more, those go that have had no
                          gradient for longest, approximately; 0: no limit */
};
#define COX_LIFECYCLE_INIT {0, 0, 0, 0, 0, 0}

/* A table: rows of `dim` F32 by 64-bit key, made by their first update, spread over all ps. */
struct cox_table_spec {
    size_t size;
    const char *name;
    uint32_t dim; /* 1 to 4096 */
    struct cox_optimizer optimizer;
    struct cox_initializer initializer; /* of a row: by seed and key alone */
    uint32_t wire_dtype;                /* as in struct cox_variable_spec */
    uint32_t nonfinite;
    struct cox_lifecycle lifecycle;
    uint32_t wire_rounding; /* as in struct cox_variable_spec */
};
#define COX_TABLE_SPEC_INIT                                                            \
    {sizeof(struct cox_table_spec),                                                    \
     NULL,                                                                             \
     0,                                                                                \
     COX_OPTIMIZER_INIT,                                                               \
     COX_INITIALIZER_INIT,                                                             \
     0,                                                                                \
     0,                                                                                \
     COX_LIFECYCLE_INIT,                                                               \
     0}

#ifdef __cplusplus
}
#endif
#endif
