/*
 * Records which step ended the step process. A thread that a fault stops, or that calls
 * exit or pthread_exit, notes the step that it runs in the recorder
 * (worker/recorder.h), so that steps that ran beside it are not blamed. (pthread_exit
 * ends the process, because the slot is gone with its thread.) If the process ends in
 * another way (_exit, a thread that a step has started, a signal handler of the step),
 * all steps that ran are suspects, and the client runs each of them alone.
 */
#ifndef COXI_WORKER_CULPRIT_H
#define COXI_WORKER_CULPRIT_H

#include "worker/recorder.h"

/* Installs the handlers. Once in a process, on the main thread, before modules are
 * loaded, because handlers of modules come before ours. */
void coxi_culprit_watch(struct coxi_recorder *recorder);

/* Watches the calling thread, which notes its steps in `slot` (NULL: does nothing); and
 * stops watching it. */
struct coxi_culprit_stack {
    /* the handler's stack, because the thread's own may have overflowed */
    void *memory;
};
void coxi_culprit_begin(struct coxi_culprit_stack *stack,
                        struct coxi_recorder_slot *slot);
void coxi_culprit_end(struct coxi_culprit_stack *stack);

#endif
