/* See stranger.h. */
#include "tests/sim/stranger.h"

#include <signal.h>
#include <stdio.h>

#include "common/error.h"
#include "coxswain/coxswain.h"
#include "tests/sim/net.h"
#include "tests/sim/nodes.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

enum { OPEN_MS = 1000, CLOSE_MS = 1000 };

static uint64_t near_until;

void sim_stranger_begin(void)
{
    near_until = 0;
}

bool sim_stranger_is_near(void)
{
    return sim_now() < near_until;
}

/* Creates a variable with the name of one of the storm's variables, but with other
 * values. */
static void use_ps(struct cox_coordinator *c)
{
    const int64_t values[2] = {7, 7};
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "c0";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 2;
    if (cox_variable_create(c, &spec, &variable) == 0) {
        (void)cox_variable_assign(c, variable, values, sizeof(values));
    }
    sim_sleep(sim_below(100 * SIM_MS));
}

static void *run(void *arg)
{
    char json[64];
    struct cox_cluster *cluster = NULL;
    struct cox_coordinator *c = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    (void)arg;
    options.listen = "tcp://h7:1";
    options.open_timeout_ms = OPEN_MS;
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"tcp://h%u:1\"]}",
                   sim_nodes_ps_host(0));
    int r = cox_cluster_parse(json, &cluster);
    r = r != 0 ? r : cox_open(cluster, &options, &c);
    sim_trace("the stranger opens: %s", r == 0 ? "OK" : cox_error_last());
    cox_cluster_free(cluster);
    if (r == 0) {
        use_ps(c);
        (void)cox_close(c, CLOSE_MS);
    }
    sim_proc_kill(sim_self_proc(), SIGKILL);
    return NULL;
}

static void on_death(struct sim_proc *proc, int signal)
{
    (void)signal;
    sim_nodes_bury(proc);
    near_until = sim_now() + 200 * SIM_MS;
}

static void start(void *arg)
{
    (void)arg;
    struct sim_proc *proc = sim_proc_new("stranger", SIM_NODE_STRANGER);
    proc->on_death = on_death;
    near_until = SIM_NEVER;
    (void)sim_spawn(proc, "main", run, NULL);
}

void sim_stranger_come(void)
{
    uint64_t noticed = sim_now() + sim_between(1100, 1400) * SIM_MS;
    sim_net_part(SIM_NODE_CLIENT, sim_nodes_ps_host(0),
                 noticed + sim_below(800 * SIM_MS));
    sim_at(noticed, start, NULL);
}
