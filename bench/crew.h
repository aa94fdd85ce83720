/* A local cluster with the benchmark's own steps (steps.c), for cases that run on
 * one. */
#ifndef COXI_BENCH_CREW_H
#define COXI_BENCH_CREW_H

#include "bench/bench.h"
#include "coxswain/coxswain.h"

struct crew {
    struct cox_coordinator *c;
    struct cox_module *module;
};

/* Opens a local cluster; all its workers are ready when this returns. `options` NULL:
 * defaults. */
void crew_open(struct bench *bench, int n_ps, int n_workers,
               const struct cox_options *options, struct crew *ret);
void crew_close(struct crew *crew);

struct cox_function *crew_function(const struct crew *crew, const char *name);

/* Calls step `spend`, which takes `us` microseconds (and may sleep meanwhile), on
 * worker `only` - 1, or on any (0). `ret` may be NULL. */
void crew_spend(struct crew *crew, int64_t us, uint32_t only, struct cox_future **ret);

/* The result of such a call: when the step ran (bench_now), its attempt, and its
 * worker. */
struct crew_spent {
    double started;
    uint32_t attempt;
    uint32_t worker;
};
void crew_spent(struct cox_future *future, struct crew_spent *ret);

#endif
