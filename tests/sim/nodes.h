/*
 * The hosts of a storm: ps and workers, which are started again when they have died. A
 * worker's step process is the real one (worker/service.h), and so is a ps
 * (ps/service.h); their supervisors are modelled here.
 */
#ifndef COXI_SIM_NODES_H
#define COXI_SIM_NODES_H

#include <stdint.h>

#include "tests/sim/plan.h"

struct sim_proc;

enum {
    SIM_NODE_CLIENT = 0,
    SIM_NODE_PS = 1,
    SIM_NODE_STRANGER = 7,
    SIM_NODE_WORKER = 8,
    SIM_NODE_SPARE = 12
};

void sim_nodes_begin(const struct sim_plan *plan);

/* NULL: it is dead right now. */
struct sim_proc *sim_nodes_ps(uint32_t i);
struct sim_proc *sim_nodes_worker(uint32_t i);

/* The host on which it runs. */
uint32_t sim_nodes_ps_host(uint32_t i);

/* Starts ps `i` on another host; its old process keeps running on the old host. Does
 * nothing if the ps is dead right now, or was moved in this storm already. */
void sim_nodes_move_ps(uint32_t i);

/* A process of any kind has died: drops its descriptors and connections. */
void sim_nodes_bury(struct sim_proc *proc);

#endif
