/*
 * The client of a storm: a program as a user would write it. It schedules calls, waits for
 * their futures, reads, writes and takes checkpoints; a program that died is started again
 * and goes on where cox_progress says.
 */
#ifndef COXI_SIM_PROGRAM_H
#define COXI_SIM_PROGRAM_H

#include "tests/sim/plan.h"

struct sim_proc;

void sim_program_begin(const struct sim_plan *plan);

/* The client process; NULL: it is dead at the moment. */
struct sim_proc *sim_program_proc(void);

/* Another one is started, whether or not one is there. */
void sim_program_start(void);

/* How many have been started. */
uint32_t sim_program_lives(void);

#endif
