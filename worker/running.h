/*
 * What a slot runs at this moment, as others see it: so that they can cancel it, and
 * look how long it has been at it.
 *
 *   IDLE -> (taken from the line) RUNNING -> (its step has returned) IDLE
 *   IDLE -> (it waits for a place in the commit window) RETURNED -> IDLE
 *   RUNNING, RETURNED -> (recalled, or its client is gone) CANCELLED -> IDLE
 *   RUNNING -> (past its deadline) OVERRUN -> IDLE
 *   RUNNING, CANCELLED, OVERRUN -> (the process is about to end) ENDING
 *
 * Threads: the slot takes it from, and back to, IDLE; all else is done by others, who
 * hold the slots' lock. A slot has that lock when it begins to run something else, so what
 * they find to run stays what it is; only the step may return meanwhile, which is why
 * every change is an exchange. Cost: one exchange a step.
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
    atomic_uint_least64_t started_ns;    /* of the step; 0: not yet */
    struct coxi_recorder_slot *recorder; /* or NULL; fixed */

    /* guarded by the slots' lock; of what is not IDLE */
    struct coxi_run *run;
    struct coxi_closure_head head;
    uint64_t layouts;  /* that had come when it was dispatched */
    uint32_t grace_ms; /* from a deadline to the end of the process */
    bool overran; /* ENDING, because it did not return in its grace after OVERRUN */
    uint64_t kill_at_ns; /* CANCELLED, OVERRUN: when the process ends */
};

/* The slot, while it runs something: whether that is cancelled, for whatever reason. */
static inline bool coxi_running_cancelled(struct coxi_running *running)
{
    unsigned state = atomic_load_explicit(&running->state, memory_order_relaxed);
    return state != COXI_RUN_RUNNING && state != COXI_RUN_RETURNED;
}

/* True where it was in state `from`, and is in state `to` now. */
static inline bool coxi_running_change(struct coxi_running *running,
                                       enum coxi_running_state from,
                                       enum coxi_running_state to)
{
    unsigned expected = from;
    return atomic_compare_exchange_strong(&running->state, &expected, to);
}

/* The slot: back to IDLE; in which state it was. Does not return where the process
 * is about to end: what ran then is on record. */
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
