/*
 * What a slot runs at this moment, for other threads: they can cancel it, and see how
 * long it has run.
 *
 *   IDLE -> (taken from the line) RUNNING -> (its step has returned) IDLE
 *   IDLE -> (it waits for a place in the commit window) RETURNED -> IDLE
 *   RUNNING, RETURNED -> (recalled, or its client is gone) CANCELLED -> IDLE
 *   RUNNING -> (past its deadline) OVERRUN -> IDLE
 *   RUNNING, CANCELLED, OVERRUN -> (the process is about to end) ENDING
 *
 * Threads: the slot itself leaves IDLE and returns to it. Other threads make all other
 * changes, under the slots' lock. A slot holds that lock when it begins to run
 * something else, so what other threads see there stays the same while they hold the
 * lock. But the step may return meanwhile, so every change is an atomic exchange. Cost:
 * one exchange a step.
 */
#ifndef COXI_WORKER_RUNNING_H
#define COXI_WORKER_RUNNING_H

#include <stdatomic.h>
#include <unistd.h>

#include "schema/wire.h"

struct coxi_recorder_slot;
struct coxi_run;

enum coxi_running_state {
    COXI_RUN_IDLE = 0,
    COXI_RUN_RUNNING,
    COXI_RUN_RETURNED,
    COXI_RUN_CANCELLED,
    COXI_RUN_OVERRUN,
    COXI_RUN_ENDING,
};

struct coxi_running {
    atomic_uint state;                   /* enum coxi_running_state */
    atomic_uint_least64_t started_ns;    /* when the step started; 0: not yet */
    struct coxi_recorder_slot *recorder; /* or NULL; fixed */

    /* guarded by the slots' lock; valid unless IDLE */
    struct coxi_run *run;
    struct coxi_closure_head head;
    uint64_t layouts;  /* layouts that the run had received when it came */
    uint32_t grace_ms; /* from a deadline to the end of the process */
    /* ENDING, because the step did not return in its grace after OVERRUN */
    bool overran;
    uint64_t kill_at_ns; /* CANCELLED, OVERRUN: when to end the process */
};

/*
 * The slot, while it runs something: true if that was cancelled, for whatever reason.
 */
static inline bool coxi_running_cancelled(struct coxi_running *running)
{
    unsigned state = atomic_load_explicit(&running->state, memory_order_relaxed);
    return state != COXI_RUN_RUNNING && state != COXI_RUN_RETURNED;
}

/* Changes the state from `from` to `to`; false: it was not `from`. */
static inline bool coxi_running_change(struct coxi_running *running,
                                       enum coxi_running_state from,
                                       enum coxi_running_state to)
{
    unsigned expected = from;
    return atomic_compare_exchange_strong(&running->state, &expected, to);
}

/* The slot: sets IDLE and returns the state before. Does not return if the process is
 * about to end, so that the recorder still says what ran. */
static inline enum coxi_running_state coxi_running_end(struct coxi_running *running)
{
    unsigned state = atomic_exchange(&running->state, COXI_RUN_IDLE);
    if (state == COXI_RUN_ENDING) {
        for (;;) {
            (void)pause();
        }
    }
    return (enum coxi_running_state)state;
}

#endif
