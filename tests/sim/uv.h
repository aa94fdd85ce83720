/* The event loops of simulated processes (uv.c has the functions of libuv). */
#ifndef COXI_SIM_UV_H
#define COXI_SIM_UV_H

struct sim_proc;

/* Begins without loops. */
void sim_uv_begin(void);

/* Sends a signal to those loops of a process that listen for it. */
void sim_uv_signal(const struct sim_proc *proc, int signum);

#endif
