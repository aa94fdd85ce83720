/* What case `modes` and its steps (mode_steps.c) share. */
#ifndef COXI_BENCH_MODES_H
#define COXI_BENCH_MODES_H

enum {
    MODES_WEIGHTS = 256, /* elements of the variable "weights", F32 */
    MODES_MEMBERS = 4,   /* closures of a round */
    MODES_SLOW = 10,     /* so many times longer takes a step on the slow worker */
};

#endif
