/* See opening.h. */
#include "tests/sim/opening.h"

#include <stdio.h>

#include "coxswain/coxswain.h"
#include "tests/sim/nodes.h"

static void set_options(const struct sim_plan *plan, struct cox_options *ret)
{
    *ret = (struct cox_options)COX_OPTIONS_INIT;
    ret->checkpoint_dir = plan->checkpoints ? "/sim/run" : NULL;
    ret->history = -1; /* samples would be a message a second that shows nothing */
    ret->keep_going = 1;
    ret->peer_timeout_ms = 1000;
    ret->worker_wait_ms = 60000;
    ret->max_crashes = 8;
    ret->step_timeout_ms = 5000;
    ret->cancel_grace_ms = 50;
    ret->speculate = plan->speculates ? 1 : -1;
    if (plan->checkpoints) {
        ret->checkpoint_incremental = plan->incremental;
        ret->checkpoint_keep = plan->keep;
        ret->checkpoint_every_closures = plan->every_closures;
        ret->replay_log_bytes = plan->log_bytes;
        ret->checkpoint_at_close = 1;
    }
}

static int make_cluster(const struct sim_plan *plan, struct cox_cluster **ret)
{
    char json[400];
    size_t used = (size_t)snprintf(json, sizeof(json), "{\"ps\": [");
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        used += (size_t)snprintf(json + used, sizeof(json) - used, "%s\"tcp://h%u:1\"",
                                 i > 0 ? ", " : "", sim_nodes_ps_host(i));
    }
    used += (size_t)snprintf(json + used, sizeof(json) - used, "], \"worker\": [");
    for (uint32_t i = 0; i < plan->n_workers; i++) {
        used += (size_t)snprintf(json + used, sizeof(json) - used, "%s\"tcp://h%u:1\"",
                                 i > 0 ? ", " : "", SIM_NODE_WORKER + i);
    }
    (void)snprintf(json + used, sizeof(json) - used, "]}");
    return cox_cluster_parse(json, ret);
}

int sim_open(const struct sim_plan *plan,
             void (*on_event)(void *arg, const struct cox_event *event), void *arg,
             struct cox_coordinator **ret)
{
    struct cox_cluster *cluster = NULL;
    struct cox_options options;
    set_options(plan, &options);
    options.on_event = on_event;
    options.event_arg = arg;
    int r = make_cluster(plan, &cluster);
    r = r != 0 ? r : cox_open(cluster, &options, ret);
    cox_cluster_free(cluster);
    return r;
}
