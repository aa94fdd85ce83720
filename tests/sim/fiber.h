/*
 * Fibers: stacks that one OS thread switches between. A fiber has its own copy of the
 * program's thread-local variables, so code that was written for threads sees what it
 * would see on a thread of its own.
 */
#ifndef COXI_SIM_FIBER_H
#define COXI_SIM_FIBER_H

#include <stddef.h>

/* A place to go on from: a stack, what is on it, and the thread-local variables. */
struct sim_context {
    void *sp;
    char *stack;
    void *locals;
    void *fake_stack; /* AddressSanitizer's */
};

/* Before the first switch. */
void sim_context_start(struct sim_context *scheduler);

/* A context that begins with `run(arg)`, which never returns. Reuses ended ones' memory. */
void sim_context_init(struct sim_context *context, void (*run)(void *arg), void *arg);

/* Its memory is for others from now on. It does not run. */
void sim_context_fini(struct sim_context *context);

/* The thread-local variables are those of `context` from now on. */
void sim_context_load(const struct sim_context *context);

/* Goes on in `to`; returns when somebody comes back to `from`. `ends`: nobody will.
 * The thread-local variables stay those that were loaded last. */
void sim_context_switch(struct sim_context *from, struct sim_context *to, int ends);

#endif
