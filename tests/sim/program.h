/*
 * The client of a storm: a program as a user would write it. It schedules calls, waits
 * for their futures, reads, writes and takes checkpoints. A program that died is
 * started again and continues where cox_progress says.
 */
#ifndef COXI_SIM_PROGRAM_H
#define COXI_SIM_PROGRAM_H

#include "tests/sim/plan.h"

struct sim_proc;

void sim_program_begin(const struct sim_plan *plan);

/* The client process; NULL: it is dead right now. */
struct sim_proc *sim_program_proc(void);

/* Starts another client, whether or not one is running. */
void sim_program_start(void);

/* Cancels all calls of the client that are not settled, on another thread of it. */
void sim_program_cancel_all(void);

/* The client takes a checkpoint on another thread, unless one is being taken. */
void sim_program_save(void);

/* How many clients were started. */
uint32_t sim_program_lives(void);

#endif
