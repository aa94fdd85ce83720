/*
 * Fibers: stacks that one OS thread switches between. A fiber has its own copy of the
 * program's thread-local variables, so code that was written for threads sees what it
 * would see on a thread of its own.
 */
#ifndef COXI_SIM_FIBER_H
#define COXI_SIM_FIBER_H

#include <stddef.h>

/* A point at which to continue: a stack with its content, and the thread-local
 * variables. */
struct sim_context {
    void *sp;
    char *stack;
    void *locals;
    void *fake_stack; /* AddressSanitizer's */
};

/* Call before the first switch. */
void sim_context_start(struct sim_context *scheduler);

/* A context that begins with `run(arg)`, which never returns. Uses the memory of an
 * ended context again. */
void sim_context_init(struct sim_context *context, void (*run)(void *arg), void *arg);

/* Releases the memory of a context that is not running. */
void sim_context_fini(struct sim_context *context);

/* From now on the thread-local variables are those of `context`. */
void sim_context_load(const struct sim_context *context);

/* Continues in `to`; returns when another context switches back to `from`. `ends`: none
 * will. The thread-local variables stay those that were loaded last. */
void sim_context_switch(struct sim_context *from, struct sim_context *to, int ends);

#endif
