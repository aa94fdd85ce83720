/*
 * Faults that wait for a moment of the protocol: until a message of some kind is sent,
 * or a process is about to change the disk. One trap for messages and one for the disk
 * at a time; a new trap replaces the earlier one.
 */
#ifndef COXI_SIM_TRAPS_H
#define COXI_SIM_TRAPS_H

#include "tests/sim/plan.h"

struct sim_proc;

/* Draws a moment, and the fault that happens then. */
void sim_trap_set(const struct sim_plan *plan);

/* Kills the client (NULL: does nothing) right after it has published its next
 * checkpoint. */
void sim_trap_checkpoint(struct sim_proc *client);

#endif
