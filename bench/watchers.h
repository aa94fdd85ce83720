/* Those who watch a run, for case `visible`: what Prometheus and two browsers ask for, in a
 * process of their own; see watchers.c. */
#ifndef COXI_BENCH_WATCHERS_H
#define COXI_BENCH_WATCHERS_H

#include "bench/bench.h"

/*
 * Starts them. `client`: the port of the client's page, `log_dir`: the logs of its daemons,
 * of which `n_daemons` say where they serve. They rest until told otherwise.
 */
void watchers_start(struct bench *bench, const char *client, const char *log_dir,
                    int n_daemons, struct bench_child *ret);
void watchers_go(struct bench_child *watchers);
void watchers_rest(struct bench_child *watchers);

/* In the child. `ports`: of the client and of its daemons, with commas between. */
void bench_serve_watchers(const char *ports);

#endif
