/* The event loops of simulated processes (uv.c has the functions of libuv). */
#ifndef COXI_SIM_UV_H
#define COXI_SIM_UV_H

struct sim_proc;

/* No loop is there. */
void sim_uv_begin(void);

/* A signal for those loops of a process that listen for any. */
void sim_uv_signal(const struct sim_proc *proc, int signum);

#endif
