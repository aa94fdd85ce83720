/* Clients of a storm in processes of their own: they are killed, and started again. */
#ifndef COXI_BENCH_CHAOS_APART_H
#define COXI_BENCH_CHAOS_APART_H

#include "bench/chaos_client.h"

struct chaos {
    struct chaos_config config;
    /* its result is that of a child, if there are children */
    struct chaos_client client;
    char **argv;
    /* the user's program, which is the client in place of this one; or NULL */
    char **program;
    char dir[64];
    char log_dir[PATH_MAX];
    char checkpoint_dir[PATH_MAX];
    char journal[PATH_MAX];
    char data_dir[PATH_MAX]; /* with --dataset */
    const char *netns;       /* the namespace in which the client runs; or NULL */
    struct chaos_storm *storm;
    double started;
    struct chaos_storm_counts counts; /* guarded by client.lock */
};

/* Starts the cluster, then one client after another until one ends by itself, and ends
 * the cluster. The result is in chaos->client.result. */
void chaos_apart_run(struct chaos *chaos);

#endif
