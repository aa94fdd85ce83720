/* See nodes.h. */
#include "tests/sim/nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/loop.h"
#include "ps/service.h"
#include "tests/sim/files.h"
#include "tests/sim/net.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"
#include "worker/recorder.h"
#include "worker/service.h"

enum { PEER_TIMEOUT_MS = 1000 };

/* A ps or a worker, which is started again when it has died. */
struct node {
    uint32_t index;
    uint32_t host;
    uint32_t n_starts;
    const struct sim_plan *plan;
    struct sim_proc *proc;
    struct coxi_recorder *recorder; /* of a worker */
};

static struct node ps_nodes[SIM_PS_MAX];
static struct node worker_nodes[SIM_WORKERS_MAX];

void sim_nodes_bury(struct sim_proc *proc)
{
    sim_net_drop(proc);
    sim_files_drop(proc);
}

static void url_of(uint32_t node, char ret[32])
{
    (void)snprintf(ret, 32, "tcp://h%u:1", node);
}

/* Draws the time until a process that has died is started again. */
static uint64_t draw_rest(void)
{
    return sim_chance(6) ? sim_below(3 * SIM_S) : sim_between(SIM_MS, 80 * SIM_MS);
}

/* ---- ps */

static void start_ps(void *arg);

static void on_tick(void *arg)
{
    coxi_ps_tick(arg);
}

static void *ps_main(void *arg)
{
    const struct node *node = arg;
    char url[32];
    struct coxi_ps *ps = NULL;
    struct coxi_loop *loop = NULL;
    url_of(sim_self_proc()->node, url);
    const struct coxi_ps_options options = {
        .listen = url, .index = node->index, .peer_timeout_ms = PEER_TIMEOUT_MS};
    if (coxi_ps_open(&options, &ps) != 0 ||
        coxi_loop_new(PEER_TIMEOUT_MS / 16 + 1, on_tick, ps, &loop) != 0) {
        abort();
    }
    coxi_loop_run(loop);
    return NULL;
}

static void on_ps_death(struct sim_proc *proc, int signal)
{
    struct node *node = proc->arg;
    (void)signal;
    sim_nodes_bury(proc);
    if (node->proc == proc) { /* otherwise it was moved */
        node->proc = NULL;
        sim_at(sim_now() + draw_rest(), start_ps, node);
    }
}

static void start_ps(void *arg)
{
    struct node *node = arg;
    char name[24];
    (void)snprintf(name, sizeof(name), "ps-%u#%u", node->index, ++node->n_starts);
    node->proc = sim_proc_new(name, node->host);
    node->proc->on_death = on_ps_death;
    node->proc->arg = node;
    sim_trace("%s begins", name);
    (void)sim_spawn(node->proc, "main", ps_main, node);
}

/* ---- workers */

static void start_worker(void *arg);

/* Its `arg` is the recorder, for steps that crash; the node is found by its host. */
static struct node *node_of(const struct sim_proc *proc)
{
    return &worker_nodes[proc->node - SIM_NODE_WORKER];
}

static void *worker_main(void *arg)
{
    const struct node *node = arg;
    int signum = 0;
    char url[32];
    url_of(SIM_NODE_WORKER + node->index, url);
    const struct coxi_worker_options options = {
        .listen = url,
        .modules = {.dir = "/sim/modules"},
        .index = node->index,
        .slots = node->plan->n_slots,
        .commit_window = node->plan->commit_window,
        .pull_cache_max = 1 << 20,
        .kept_max = 1 << 20,
        .step_rows_max = 1 << 20,
        .data_cache_max = 4 << 20,
        .peer_timeout_ms = PEER_TIMEOUT_MS,
        .recorder = node->recorder,
    };
    (void)coxi_worker_serve(&options, &signum);
    sim_proc_kill(sim_self_proc(), 0);
    return NULL;
}

/* Does what the supervisor does when its step process has ended. */
static void on_worker_death(struct sim_proc *proc, int signal)
{
    struct node *node = node_of(proc);
    const struct coxi_crashed_head *crashed;
    sim_nodes_bury(proc);
    node->proc = NULL;
    (void)coxi_recorder_collect(node->recorder, signal, &crashed);
    sim_at(sim_now() + draw_rest(), start_worker, node);
}

static void start_worker(void *arg)
{
    struct node *node = arg;
    char name[24];
    (void)snprintf(name, sizeof(name), "worker-%u#%u", node->index, ++node->n_starts);
    node->proc = sim_proc_new(name, SIM_NODE_WORKER + node->index);
    node->proc->on_death = on_worker_death;
    node->proc->arg = node->recorder;
    sim_trace("%s begins", name);
    (void)sim_spawn(node->proc, "main", worker_main, node);
}

/* ---- all of them */

void sim_nodes_begin(const struct sim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        ps_nodes[i] = (struct node){.index = i, .host = SIM_NODE_PS + i, .plan = plan};
        start_ps(&ps_nodes[i]);
    }
    for (uint32_t i = 0; i < plan->n_workers; i++) {
        int fd;
        worker_nodes[i] = (struct node){.index = i, .plan = plan};
        if (coxi_recorder_new(&fd, &worker_nodes[i].recorder) != 0) {
            abort();
        }
        start_worker(&worker_nodes[i]);
    }
}

struct sim_proc *sim_nodes_ps(uint32_t i)
{
    return ps_nodes[i].proc;
}

uint32_t sim_nodes_ps_host(uint32_t i)
{
    return ps_nodes[i].host;
}

void sim_nodes_move_ps(uint32_t i)
{
    struct node *node = &ps_nodes[i];
    if (node->proc != NULL && node->host == SIM_NODE_PS + i) {
        sim_trace("%s is given up where it is", node->proc->name);
        node->host = SIM_NODE_SPARE + i;
        start_ps(node);
    }
}

struct sim_proc *sim_nodes_worker(uint32_t i)
{
    return worker_nodes[i].proc;
}
