/*
 * Who took the step process down: the thread that a fault stops, or that calls exit or
 * pthread_exit (which ends the process, because a slot is gone with its thread), says
 * what it runs, on record (worker/recorder.h), so that nothing that ran beside is blamed.
 * Whatever else ends the process (_exit, a thread that a step has started, a handler of the
 * step's own) leaves all that ran as suspects; the client has those run alone.
 */
#ifndef COXI_WORKER_CULPRIT_H
#define COXI_WORKER_CULPRIT_H

#include "worker/recorder.h"

/* From now on the record is told. Once in a process, on the main thread; before modules are
 * loaded, whose own handlers come before ours. */
void coxi_culprit_watch(struct coxi_recorder *recorder);

/* This thread runs steps, noted in `slot` (NULL: nowhere); and does not any more. */
struct coxi_culprit_stack {
    void *memory; /* for a handler where the thread's own stack is full */
};
void coxi_culprit_begin(struct coxi_culprit_stack *stack,
                        struct coxi_recorder_slot *slot);
void coxi_culprit_end(struct coxi_culprit_stack *stack);

#endif
