/* Operations of the client's own, which take an id among the closures. Any thread, without
 * c->lock. */
#ifndef COXI_COORDINATOR_CLOSURES_OPERATION_H
#define COXI_COORDINATOR_CLOSURES_OPERATION_H

#include "coordinator/coordinator.h"

struct coxi_replay_entry; /* base/replay_log.h */

/*
 * An operation of the client's own, which takes an id among the closures. `what` is logged in
 * the same moment (its id and state are set here), so that no checkpoint sees the one without
 * the other. Takes its update, if it succeeds. `wait`: while the replay log is full, or ids
 * would run too far ahead; else it makes it fuller. COX_ENOMEM; what ended the coordinator.
 */
int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct cox_future **ret);

/* The same, waiting for room, for what is to be written later: it is HELD in the log, at the place
 * of its id. `listed` is called with it before anything gets a higher id, with c->lock. */
int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct cox_future *operation),
                        void *arg);

/* Only waits, for who must not do so while it begins. */
int coxi_operation_room(struct cox_coordinator *c);

enum coxi_operation_end {
    COXI_OPERATION_DONE,    /* everybody has it */
    COXI_OPERATION_NOWHERE, /* nobody has it, or ever will */
    COXI_OPERATION_LOGGED,  /* the log says already who has it; or the run is over, and
                               nobody knows */
};
void coxi_operation_end(struct cox_future *operation, enum coxi_operation_end how);

#endif
