/*
 * The intake: where closures and operations of the client's own get their ids, in order, and wait
 * for the loop. Any thread; all with c->lock.
 */
#ifndef COXI_COORDINATOR_CLOSURES_INTAKE_H
#define COXI_COORDINATOR_CLOSURES_INTAKE_H

#include "coordinator/coordinator.h"

/* An operation (operation.h). It belongs to whoever has begun it, until that ends it. */
struct coxi_operation {
    struct coxi_mail mail; /* first: tells the loop of its end */
    struct cox_coordinator *c;
    uint64_t id;
    struct coxi_operation *next; /* in the intake */
};

struct coxi_closure;

/* Gives it the next id; the loop takes it over in its next turn. */
void coxi_intake_put(struct cox_coordinator *c, struct coxi_closure *closure);
void coxi_intake_put_operation(struct cox_coordinator *c,
                               struct coxi_operation *operation);

/* True while a closure more would be too many. */
bool coxi_intake_is_full(const struct cox_coordinator *c);

/* Waits a while for room, in a call (base/call.h) that says for what. Unlocks meanwhile. */
void coxi_intake_wait(struct cox_coordinator *c);

/* Waits until an id may be given out; what ended the coordinator. Unlocks meanwhile. */
int coxi_intake_await_id(struct cox_coordinator *c);

#endif
