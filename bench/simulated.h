/* A cluster of a crowd (crowd.h) and parameter servers, which answer without working. */
#ifndef COXI_BENCH_SIMULATED_H
#define COXI_BENCH_SIMULATED_H

#include <stdint.h>

#include "bench/bench.h"

struct cox_cluster;
struct cox_coordinator;
struct cox_function;
struct cox_options;

struct simulated {
    struct bench *bench;
    struct bench_child crowd;
    struct bench_child ps[BENCH_PS_MAX];
    uint32_t n_workers;
    uint32_t n_ps;
    struct cox_cluster *cluster;
    char params[64]; /* for reports */
};

/* Starts the processes. Raises the limit of open files of this one. */
void simulated_start(struct bench *bench, uint32_t n_workers, uint32_t n_ps,
                     struct simulated *ret);
void simulated_stop(struct simulated *simulated);

/* Opens a client when all workers are ready, with these options; returns the seconds
 * that cox_open took. `ret_nothing`: a step for them. */
double simulated_open(const struct simulated *simulated, struct cox_options *options,
                      struct cox_coordinator **ret, struct cox_function **ret_nothing);
void simulated_close(struct cox_coordinator *c);

#endif
