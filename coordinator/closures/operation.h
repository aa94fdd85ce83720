/*
 * Operations: changes that the client itself makes on the ps (creating a variable,
 * writing one, loading a checkpoint). An operation is no closure, but takes an id among
 * them, so that all agree on their order. Any thread, without c->lock, unless a
 * function says otherwise.
 *
 * The progress of an operation is the state of its entry in the replay log
 * (base/replay_log.h, enum coxi_replay_state):
 *
 *   coxi_operation_begin -> OPEN -> coxi_operation_end
 *   coxi_operation_hold  -> HELD, at the place of its id -> OPEN, when its turn comes
 *                        -> coxi_operation_end
 *
 * The loop knows only that the id is taken, until the operation ends.
 */
#ifndef COXI_COORDINATOR_CLOSURES_OPERATION_H
#define COXI_COORDINATOR_CLOSURES_OPERATION_H

#include "coordinator/closures/schedule.h"

struct coxi_replay_entry; /* base/replay_log.h */

/* A new operation; `id`: 0, or the id that an older client gave it. NULL: no memory. */
struct coxi_operation *coxi_operation_new(struct cox_coordinator *c,
                                          struct coxi_closure_id id);

/*
 * Begins an operation. `what` is logged at the same time (its id and state are set
 * here), so no checkpoint sees one without the other. Takes its update on success.
 * `wait`: waits while the replay log is full, or ids would run too far ahead; otherwise
 * the log may exceed its limit. COX_ENOMEM; otherwise the code that ended the
 * coordinator.
 */
int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct coxi_operation **ret);

/*
 * The same for a write that happens later; waits for room. It is HELD in the log, at
 * the place of its id. `listed` is called with the operation and with c->lock, before a
 * higher id is given out.
 */
int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct coxi_operation *operation),
                        void *arg);

/* Only waits for room, for callers that must not wait while the operation begins. */
int coxi_operation_room(struct cox_coordinator *c);

enum coxi_operation_end {
    COXI_OPERATION_DONE,    /* all ps have it */
    COXI_OPERATION_NOWHERE, /* no ps has it, or ever will */
    /* The log says already which ps have it; or the run is over, and nobody knows. */
    COXI_OPERATION_LOGGED,
};

/* Ends the operation, and frees it. */
void coxi_operation_end(struct coxi_operation *operation, enum coxi_operation_end how);

#endif
