/*
 * One attempt of a closure: runs its step, collects the updates, commits them to every
 * ps that they touch, and reports when all have acknowledged.
 *
 * Threads: a slot runs it; the end of its commits comes on a ps client's thread.
 */
#ifndef COXI_WORKER_ATTEMPT_H
#define COXI_WORKER_ATTEMPT_H

#include "worker/recorder.h"
#include "worker/run.h"
#include "worker/running.h"

/* An argument that this worker keeps. */
struct coxi_taken {
    uint64_t closure;  /* whose result it is */
    uint32_t position; /* among the arguments */
    const char *name;
    const char *result;
};

/* What a closure is called with, beside its head. */
struct coxi_call {
    const void *args;               /* packed */
    const struct coxi_taken *taken; /* more of them, by rising position */
    size_t args_len;
    uint32_t n_taken;
    bool keep;  /* what it returns is to stay here */
    bool alone; /* nothing runs beside it */
};

/*
 * Runs the closure `head` as `call` says on the calling thread; `running` is
 * where others see that, RUNNING on entry (or cancelled: it is not started then) and IDLE
 * on return. When it returns the step has; commits may still be under way, and what it
 * has put in line is not flushed. Returns how long the step ran, in microseconds.
 */
uint32_t coxi_attempt_run(struct coxi_run *run, struct coxi_running *running,
                          const struct coxi_closure_head *head,
                          const struct coxi_call *call);

/* Makes a resource on the calling thread, as coxi_attempt_run runs a closure, and answers
 * for it. */
void coxi_attempt_make(struct coxi_run *run, struct coxi_running *running,
                       struct coxi_kept *kept);

/* Answers an attempt that has not been started as cancelled. */
void coxi_attempt_cancel(struct coxi_run *run, uint64_t closure, uint32_t attempt);

/* Frees the attempts and the scratch that a run keeps to use again. */
void coxi_attempts_free(struct coxi_run *run);

#endif
