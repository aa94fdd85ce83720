/*
 * Operations: what the client itself does to the ps (creating a variable, writing one, loading a
 * checkpoint). An operation is no closure, but takes an id among them, so that all agree on what
 * came before it. Any thread, without c->lock, unless a function says otherwise.
 *
 * How far an operation has come is the state of its entry in the replay log
 * (base/replay_log.h, enum coxi_replay_state):
 *
 *   coxi_operation_begin -> OPEN -> coxi_operation_end
 *   coxi_operation_hold  -> HELD, at the place of its id -> OPEN, when its turn has come -> so
 *
 * The loop knows only that its id is taken, until it ends.
 */
#ifndef COXI_COORDINATOR_CLOSURES_OPERATION_H
#define COXI_COORDINATOR_CLOSURES_OPERATION_H

#include "coordinator/closures/intake.h"

struct coxi_replay_entry; /* base/replay_log.h */

/* One that has no id yet, or whose id was given to it by an older client. NULL: no memory. */
struct coxi_operation *coxi_operation_new(struct cox_coordinator *c, uint64_t id);

/*
 * Begins an operation. `what` is logged in the same moment (its id and state are set here), so
 * that no checkpoint sees the one without the other. Takes its update, if it succeeds. `wait`:
 * while the replay log is full, or ids would run too far ahead; else it makes it fuller.
 * COX_ENOMEM; what ended the coordinator.
 */
int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct coxi_operation **ret);

/* The same, waiting for room, for what is to be written later: it is HELD in the log, at the place
 * of its id. `listed` is called with it before anything gets a higher id, with c->lock. */
int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct coxi_operation *operation),
                        void *arg);

/* Only waits, for callers that must not do so while the operation begins. */
int coxi_operation_room(struct cox_coordinator *c);

enum coxi_operation_end {
    COXI_OPERATION_DONE,    /* everybody has it */
    COXI_OPERATION_NOWHERE, /* nobody has it, or ever will */
    /* The log says already who has it; or the run is over, and nobody knows. */
    COXI_OPERATION_LOGGED,
};

/* Ends it, and frees it. */
void coxi_operation_end(struct coxi_operation *operation, enum coxi_operation_end how);

#endif
