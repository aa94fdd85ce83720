/*
 * The specifications of variables and tables: optimizers and their schedules,
 * initializers, shards, lifecycles. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_VARIABLE_H
#define COXSWAIN_VARIABLE_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Optimizers: how a ps applies a gradient g to a value w. r is the learning rate of
 * that update. In parentheses: the numbers that the rule takes, and how many numbers of
 * state a ps keeps for each value.
 *
 *   COX_SGD               w -= r g
 *   COX_MOMENTUM          u = momentum u + g;  w -= r u
 *                         (momentum; 1 number of state)
 *   COX_NESTEROV          u = momentum u + g;  w -= r (g + momentum u)
 *                         (momentum; 1)
 *   COX_ADAGRAD           s += g^2;  w -= r g / (sqrt(s) + epsilon)
 *                         (initial_accumulator, epsilon; 1)
 *   COX_ROWWISE_ADAGRAD   the same, but a row has one s, of the mean of its g^2
 *                         (initial_accumulator, epsilon; 1 for each row)
 *   COX_RMSPROP           s = rho s + (1 - rho) g^2;  w -= r g / (sqrt(s) + epsilon)
 *                         (rho, epsilon; 1)
 *   COX_ADADELTA          s = rho s + (1 - rho) g^2;
 *                         d = g sqrt(x + epsilon) / sqrt(s + epsilon);
 *                         x = rho x + (1 - rho) d^2;  w -= r d
 *                         (rho, epsilon; 2)
 *   COX_ADAM              m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 *                         w -= r m' / (sqrt(v') + epsilon), where
 *                         m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
 *                         (beta1, beta2, epsilon; 2, and 1 for each row of a table)
 *   COX_ADAMW             w -= r weight_decay w, then as COX_ADAM
 *   COX_FTRL              FTRL-proximal, see below
 *                         (beta, l1, l2, initial_accumulator; 2)
 *   COX_LOSS_SCALE        see below
 *                         (growth_factor, growth_interval; 1)
 *
 * The rules are PyTorch's. RMSProp's rho is PyTorch's alpha, and Adagrad's
 * initial_accumulator is its initial_accumulator_value.
 *
 * Only FTRL is Keras's, with a learning_rate_power of -0.5; l1 and l2 are Keras's
 * regularization strengths. z starts at 0, n at initial_accumulator. A gradient does z
 * += g - (sqrt(n + g^2) - sqrt(n)) / r w;  n += g^2; w = 0 where |z| <= l1, else
 * (sign(z) l1 - z) / ((beta + sqrt(n)) / r + 2 l2). So the next gradient overwrites any
 * value that w was initialized with or assigned: begin at zeros.
 *
 * COX_LOSS_SCALE is for a variable by which steps multiply their loss, so that small
 * gradients survive a narrow type (cox_step_loss_scale). Its "gradient" is 0 after a
 * step whose gradients were all finite, otherwise not 0. After one that is not 0, w
 * becomes w / growth_factor, but not less than 1 (a w below 1 stays). After
 * growth_interval good steps in a row, w becomes w growth_factor. This is
 * torch.amp.GradScaler's rule, which has no lower bound. Begin at a constant, like
 * 65536. The variable is a dense one of one number, shape {1}, without wire_dtype and
 * schedule (else COX_EINVAL).
 *
 * A ps keeps state beside the values, and checkpoints hold it. A row is a row of a
 * table, or of a dense variable's first axis. For a table the rules are lazy: a row and
 * its state change only with a gradient of that row, and t counts the gradients of the
 * row. For a dense variable t counts the gradients that were pushed to any of its rows;
 * each ps that has a shard has the same t.
 *
 * A number that is 0 stands for its default, if it has one; to get none, give a tiny
 * number (1e-30). rho, beta1 and beta2 stand for the shortest decimal number that
 * rounds to them: 0.999F is 0.999, so 1 - beta2 is 0.001 in double before it is
 * rounded. A number that the rule does not use must be 0; so must all numbers of
 * COX_OPTIMIZER_NONE. A learning_rate of 0 is refused, unless a schedule has an
 * end_rate above 0. docs/optimizers.md has all this in one table, with the names of the
 * state in checkpoints.
 */
enum cox_optimizer_kind {
    COX_OPTIMIZER_NONE = 0, /* the variable takes no gradients */
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
 * Schedules: the learning rate depends on s, the place in the run of the closure that
 * pushes. The run's first closure has s = 0. Each further closure adds 1, and so does
 * each write of the client (assign, add, rate, create), no matter which variable it
 * writes. So s is the same on every ps, in every attempt, and when a closure runs again
 * after a loss. When a client goes on from a checkpoint, or loads one with its state
 * (cox_checkpoint_load), s goes on from there. A step that counts otherwise sets s
 * itself: cox_step_rate_step.
 *
 * In the first warmup_steps the rate rises from 0: learning_rate * s / warmup_steps.
 * After that the formulas below hold, with s counted from the end of the warm-up. From
 * `steps` on, linear, polynomial and cosine stay at end_rate.
 *
 *   COX_SCHEDULE_CONSTANT     learning_rate
 *   COX_SCHEDULE_LINEAR       learning_rate to end_rate
 *   COX_SCHEDULE_POLYNOMIAL   end_rate + (learning_rate - end_rate)
 *                             (1 - s / steps)^power
 *   COX_SCHEDULE_EXPONENTIAL  learning_rate gamma^(s / steps)
 *   COX_SCHEDULE_STEP         the same, s / steps rounded down
 *   COX_SCHEDULE_COSINE       end_rate + (learning_rate - end_rate)
 *                             (1 + cos(pi s / steps)) / 2
 *
 * All kinds except constant need `steps`. A number that the kind does not use must be
 * 0. FTRL and COX_LOSS_SCALE take no schedule.
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
 * Before a ps applies the rule, it clips the gradient by value, then by norm, and then
 * adds weight_decay * w to it. COX_ADAMW has the decay in its rule instead.
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
    /* Bounds the absolute value of each number of a gradient; 0: no bound */
    float clip_value;
    /* Bounds the Euclidean norm of a table row's gradient, or of the part of a dense
     * gradient that one ps has; 0: no bound */
    float clip_norm;
    float growth_factor;   /* 0: 2 */
    float growth_interval; /* 0: 2000 */
    struct cox_schedule schedule;
};
#define COX_OPTIMIZER_INIT COX_INIT_PLAIN

/*
 * Initial values. They depend only on the seed and the place: the key and column of a
 * table, the element of a dense variable. A seed of 0 stands for one that is made from
 * the run's seed (cox_options.seed) and the variable's name. So variables of equal
 * specs begin differently, and every run of a program begins alike unless it has
 * another seed. Two variables with the same seed other than 0 begin with the same
 * numbers.
 *
 * Glorot, Bengio 2010: uniform in [-l, l) with l = sqrt(6 / (in + out)), or normal with
 * deviation sqrt(2 / (in + out)). For a dense variable `out` is the size of the last
 * axis and `in` that of the one before it, each times the sizes of all earlier axes; at
 * rank 1, both are the size of the only axis. For a table `in` is 1 and `out` is dim.
 */
enum cox_initializer_kind {
    /* `a` and `b` must be 0 in kinds that do not use them */
    COX_ZEROS = 0,
    COX_CONSTANT = 1,         /* a */
    COX_UNIFORM = 2,          /* in [a, b) */
    COX_NORMAL = 3,           /* mean a, standard deviation b */
    COX_TRUNCATED_NORMAL = 4, /* the same, drawn again if farther than 2 b from a */
    COX_GLOROT_UNIFORM = 5,
    COX_GLOROT_NORMAL = 6,
};

struct cox_initializer {
    uint32_t kind; /* enum cox_initializer_kind */
    float a;
    float b;
    uint64_t seed; /* 0: made from the run's seed and the variable's name */
};
#define COX_INITIALIZER_INIT COX_INIT_PLAIN

/*
 * What happens to a gradient with a number that is not finite, or that is so large that
 * it would overflow the state of the rule. The least such number is 2^64 (1.8e19) for
 * Adagrad, RMSProp, Adadelta, Adam, AdamW and FTRL, because its square is too large,
 * and 3.4e38 (1 - momentum) for momentum and Nesterov. With a clip_value or clip_norm
 * below this limit, only numbers that are not finite matter.
 *
 * Rejected: the step fails with COX_ENONFINITE, the text names variable and row, and
 * nothing of the step is applied. Allowed: the gradient is applied. With every rule a
 * NaN makes the value NaN, and an infinity makes it infinite or NaN. With clip_norm,
 * one such number makes NaN of all values that are clipped together with it.
 * (clip_value is applied before, and bounds infinities.)
 *
 * The same choice holds when steps pull a variable with a wire_dtype. A number that is
 * infinite in that type, like those beyond 65504 in F16, fails the pull with
 * COX_ENONFINITE, or is pulled as infinite. cox_stats counts such numbers in both cases
 * (pulled_infinite).
 */
enum cox_nonfinite {
    COX_NONFINITE_REJECT = 0,
    COX_NONFINITE_ALLOW = 1,
};

/*
 * How gradients are rounded to a wire_dtype. Nearest: equal numbers have the same error
 * every time, and a number too small for the type is always 0. Stochastic: up or down
 * by chance, so that the mean over many steps is right; this costs some nanoseconds a
 * number. The chance is drawn from run, closure and row, so every attempt rounds alike.
 * Values that steps pull are always rounded to the nearest.
 */
enum cox_rounding {
    COX_ROUND_NEAREST = 0,
    COX_ROUND_STOCHASTIC = 1,
};

/*
 * What happens to a stale gradient: one whose staleness (staleness.h) is more than
 * staleness_max. Each ps decides for the part of the gradient that it gets. A gradient
 * for a variable that the step has not pulled has no staleness, and is applied as it is.
 *
 * Dropped: the gradient of this variable is not applied on that ps. The closure counts as
 * applied all the same, exactly once. A dense variable's t (Adam) still counts it; a
 * table does not, and makes no rows for it.
 *
 * Scaled: the gradient is multiplied by 1 / (1 + staleness), before it is clipped. Zhang,
 * Gupta, Lian, Liu: Staleness-aware async-SGD for distributed deep learning, IJCAI 2016,
 * divide the learning rate by the staleness, if it is above 0. Rules that normalize
 * gradients (Adagrad, RMSProp, Adadelta, Adam) undo a part of it.
 */
enum cox_staleness_action {
    COX_STALENESS_APPLY = 0, /* it is applied like any other; staleness_max must be 0 */
    COX_STALENESS_DROP = 1,
    COX_STALENESS_SCALE = 2,
};

/*
 * Delay compensation (DC-ASGD; Zheng et al.: Asynchronous stochastic gradient descent with
 * delay compensation, ICML 2017). A gradient g that a step computed from the values
 * w_pulled is applied as g + lambda g g (w - w_pulled), number by number, where w are the
 * values at that moment: a guess of the gradient at w, with g g in place of the second
 * derivative. lambda is delay_compensation. Scaling comes before it, clipping by value
 * and weight_decay after it.
 *
 * Steps send the values that they have pulled last along with their gradients, so pushes
 * of this variable have twice the bytes, and a worker keeps a copy of what its steps pull
 * from it. If a step has not pulled all rows of a push in its last pull of the variable,
 * that push is applied without compensation, as are the gradients of a round, and those
 * that a step accumulates or makes of local steps. Not with a wire_dtype, clip_norm or
 * COX_ROWWISE_ADAGRAD (COX_EINVAL).
 */

/*
 * A dense variable: of rank 1 or more, without a dimension of size 0. Only an F32
 * variable may have an optimizer, or initial values other than zeros.
 *
 * A variable may be cut along its first axis into n shards on different ps. Each shard
 * has rows / n rows, and the first rows % n shards have one more ("div"). Users do not
 * notice. n is `shards`, but at most the number of ps or rows. If `shards` is 0, there
 * are as few shards as keep each at shard_max_bytes or less (COX_EINVAL: there are not
 * enough ps or rows); without shard_max_bytes, as many as keep each at shard_min_bytes
 * or more.
 */
struct cox_variable_spec {
    size_t size;

    /* 1 to COX_NAME_MAX bytes of UTF-8; see cox_variable_create. */
    const char *name;

    uint32_t dtype; /* enum cox_dtype */

    /* The number of dimensions, and their sizes; none is 0. */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];

    /* The number of shards, see above. 0: chosen by shard_min_bytes and
     * shard_max_bytes. */
    uint32_t shards;

    struct cox_optimizer optimizer;     /* What a gradient does. */
    struct cox_initializer initializer; /* The values before any update. */

    /* If `shards` is 0: the least and the greatest size of a shard in bytes (0: no
     * limit). */
    uint64_t shard_min_bytes;
    uint64_t shard_max_bytes;

    /*
     * Only for F32. COX_BF16 or COX_F16: the values that steps pull and the gradients
     * that they push are rounded to that type on the wire, which halves the bytes. 0:
     * they are sent as F32.
     */
    uint32_t wire_dtype;

    uint32_t nonfinite;     /* enum cox_nonfinite */
    uint32_t wire_rounding; /* enum cox_rounding; 0 without a wire_dtype */

    /* The most updates that a gradient's values may have missed; for gradients that
     * missed more: staleness_action. */
    uint64_t staleness_max;
    uint32_t staleness_action; /* enum cox_staleness_action */

    /* The lambda of delay compensation, see above; 0: none. */
    float delay_compensation;
};
#define COX_VARIABLE_SPEC_INIT COX_INIT(cox_variable_spec)

/*
 * Which rows a table makes, and which it drops again. All 0: every key that is updated
 * gets a row, and keeps it. A row that does not exist, because it is not admitted yet
 * or was dropped, reads as its initial values and takes no memory. Gradients pushed to
 * it are forgotten; an add or assign makes it. Ages count the gradient updates of the
 * table that have reached the row's ps. Each ps decides for its own rows.
 */
struct cox_lifecycle {
    /* A key gets its row with its admit_count-th update; 0: with the first. Updates are
     * counted approximately, in bounded memory: a key may be admitted early, never
     * late */
    uint32_t admit_count;

    /* Each update of a key makes its row with this probability, between 0 and 1, drawn
     * from run, closure and key; 0: always. With admit_count, both must agree */
    float admit_probability;

    /* A row is dropped when it has had no gradient for this long; 0: never */
    uint64_t evict_age;

    /* A row is dropped if it has had fewer than evict_count gradients evict_count_age
     * after it was made; 0: never */
    uint32_t evict_count;
    uint64_t evict_count_age;

    /* At most this many rows on each ps: beyond that, the rows without a gradient for
     * longest are dropped, approximately; 0: no limit */
    uint64_t rows_max;
};
#define COX_LIFECYCLE_INIT COX_INIT_PLAIN

/* A table: rows of `dim` F32 by 64-bit key. The first update of a key makes its row.
 * The rows are spread over all ps. */
struct cox_table_spec {
    size_t size;
    const char *name; /* As in struct cox_variable_spec. */
    uint32_t dim;     /* 1 to 4096 floats in a row. */

    struct cox_optimizer optimizer; /* What a gradient does to a row. */
    /* A row's first values; they depend only on seed and key. */
    struct cox_initializer initializer;

    uint32_t wire_dtype; /* As in struct cox_variable_spec. */
    uint32_t nonfinite;  /* enum cox_nonfinite */

    struct cox_lifecycle lifecycle; /* Which rows are made, and which are dropped. */

    uint32_t wire_rounding;    /* As in struct cox_variable_spec. */
    uint64_t staleness_max;    /* As in struct cox_variable_spec. */
    uint32_t staleness_action; /* enum cox_staleness_action */
    float delay_compensation;  /* As in struct cox_variable_spec. */
};
#define COX_TABLE_SPEC_INIT COX_INIT(cox_table_spec)

#ifdef __cplusplus
}
#endif
#endif
