/* The description of a variable: see Variable in wire.fbs. Include wire.h instead. */
#ifndef COXI_SCHEMA_WIRE_VARIABLE_H
#define COXI_SCHEMA_WIRE_VARIABLE_H

#include <stddef.h>
#include <stdint.h>

enum { COXI_WIRE_RANK_MAX = 8 };

enum coxi_kind { COXI_KIND_DENSE = 0, COXI_KIND_TABLE };

struct coxi_schedule {
    uint32_t kind;
    float end_rate;
    float power;
    float gamma;
    uint64_t steps;
    uint64_t warmup_steps;
};

struct coxi_optimizer {
    uint32_t kind;
    float learning_rate;
    float epsilon;
    float initial_accumulator;
    float momentum;
    float rho;
    float beta1;
    float beta2;
    float beta;
    float l1;
    float l2;
    float weight_decay;
    float clip_value;
    float clip_norm;
    float growth_factor;
    float growth_interval;
    struct coxi_schedule schedule;
};

/* The numbers of optimizers and schedules, for code that handles each of them. */
#define COXI_OPTIMIZER_NUMBERS(X)                                                      \
    X(learning_rate)                                                                   \
    X(epsilon)                                                                         \
    X(initial_accumulator)                                                             \
    X(momentum)                                                                        \
    X(rho)                                                                             \
    X(beta1)                                                                           \
    X(beta2)                                                                           \
    X(beta)                                                                            \
    X(l1)                                                                              \
    X(l2)                                                                              \
    X(weight_decay)                                                                    \
    X(clip_value)                                                                      \
    X(clip_norm)                                                                       \
    X(growth_factor)                                                                   \
    X(growth_interval)
#define COXI_SCHEDULE_NUMBERS(X) X(end_rate) X(power) X(gamma)

struct coxi_initializer {
    uint32_t kind;
    float a;
    float b;
    uint64_t seed;
};

struct coxi_shard {
    uint64_t ps;
    uint64_t begin;
    uint64_t count;
};

struct coxi_lifecycle {
    uint32_t admit_count;
    float admit_probability;
    uint64_t evict_age;
    uint32_t evict_count;
    uint64_t evict_count_age;
    uint64_t rows_max;
};

struct coxi_staleness {
    uint32_t action;
    float compensation;
    uint64_t max;
};

struct coxi_variable {
    uint32_t id;
    const char *name;
    enum coxi_kind kind;
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[COXI_WIRE_RANK_MAX];
    const struct coxi_shard *shards;
    size_t n_shards;
    struct coxi_optimizer optimizer;
    struct coxi_initializer initializer;
    uint32_t wire_dtype;
    uint32_t wire_rounding;
    uint32_t nonfinite;
    uint32_t metric;
    struct coxi_lifecycle lifecycle;
    struct coxi_staleness staleness;
};

#endif
