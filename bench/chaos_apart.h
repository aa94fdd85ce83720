/* Clients of a storm that are processes of their own: they are killed, and started again. */
#ifndef COXI_BENCH_CHAOS_APART_H
#define COXI_BENCH_CHAOS_APART_H

#include "bench/chaos_client.h"

struct chaos {
    struct chaos_config config;
    struct chaos_client client; /* its result is a child's where there is one */
    char **argv;
    char **program; /* that is the client instead of us; or NULL */
    char dir[64];
    char log_dir[PATH_MAX];
    char checkpoint_dir[PATH_MAX];
    char journal[PATH_MAX];
    const char *netns; /* in which the client is to run; or NULL */
    struct chaos_storm *storm;
    double started;
    struct chaos_storm_counts counts; /* guarded by client.lock */
};

/* Starts the cluster, then one client after the other until one has ended by itself, and ends the
 * cluster. What came of it is in chaos->client.result. */
void chaos_apart_run(struct chaos *chaos);

#endif
