/* The intake, the way of closures and of the client's own operations to the loop: here
 * they get their ids, in order, and wait for the loop. Any thread. */
#ifndef COXI_COORDINATOR_CLOSURES_SCHEDULE_H
#define COXI_COORDINATOR_CLOSURES_SCHEDULE_H

#include "common/sync.h"
#include "coordinator/coordinator.h"

/* An operation (operation.h). Owned by the caller that has begun it, until it ends
 * it. */
struct coxi_operation {
    /* must be the first member; tells the loop of the operation's end */
    struct coxi_mail mail;
    struct cox_coordinator *c;
    struct coxi_closure_id id;
    struct coxi_operation *next; /* in the intake */
};

struct coxi_closure;
struct coxi_handout;

/* Gives the closure the next id; the loop takes it over in its next turn. */
void coxi_intake_put(struct cox_coordinator *c, struct coxi_closure *closure)
    COXI_REQUIRES(c->lock);
void coxi_intake_put_operation(struct cox_coordinator *c,
                               struct coxi_operation *operation) COXI_REQUIRES(c->lock);

/* True if there is no room for another closure. */
bool coxi_intake_is_full(const struct cox_coordinator *c) COXI_REQUIRES(c->lock);

/* Waits a while for room, in a call (base/call.h) that says what it waits for. Unlocks
 * meanwhile. */
void coxi_intake_wait(struct cox_coordinator *c) COXI_REQUIRES(c->lock);

/* Waits until an id may be given out; returns the code that ended the coordinator, or
 * 0. Unlocks meanwhile. */
int coxi_intake_await_id(struct cox_coordinator *c) COXI_REQUIRES(c->lock);

/* A task of a data set that is given out to a closure. */
struct coxi_schedule_task {
    struct coxi_handout *handout;
    uint32_t timeout_ms; /* 0: none */
};

/* Schedules a closure with a task. `call` is checked and has the packed task as its
 * first argument. On success the closure has the hand-out, and handout->closure is set;
 * otherwise it is not. Errors: those of cox_schedule. */
int coxi_schedule_task(struct cox_coordinator *c, struct cox_function *function,
                       const struct cox_call *call,
                       const struct coxi_schedule_task *task, struct cox_future **ret);

/*
 * Several closures together, whose ids then follow one another: make each of them
 * (_make; _make_placed: of deterministic rounds, with the place as its first argument;
 * _make_task: with a task, its call as for coxi_schedule_task; errors of cox_schedule;
 * `held`: the user will hold its future), wait for room (_await; without `wait`:
 * COX_EAGAIN), give them their tasks (_give_task), give them to the loop (_enter), and
 * wake it without the lock (_wake, with what _enter has returned).
 */
int coxi_schedule_make(struct cox_coordinator *c, struct cox_function *function,
                       const struct cox_call *call, bool held,
                       struct coxi_closure **ret);
int coxi_schedule_make_placed(struct cox_coordinator *c, struct cox_function *function,
                              const struct cox_call *call, bool held,
                              struct coxi_closure **ret);
int coxi_schedule_make_task(struct cox_coordinator *c, struct cox_function *function,
                            const struct cox_call *call,
                            const struct coxi_schedule_task *task, bool held,
                            struct coxi_closure **ret);
int coxi_schedule_await(struct cox_coordinator *c, const struct coxi_closure *closure,
                        bool wait) COXI_REQUIRES(c->lock);
void coxi_schedule_give_task(struct coxi_closure *closure,
                             struct coxi_handout *handout) COXI_REQUIRES_C_LOCK;
bool coxi_schedule_enter(struct cox_coordinator *c,
                         struct coxi_closure *const *closures, size_t n)
    COXI_REQUIRES(c->lock);
void coxi_schedule_wake(struct cox_coordinator *c, bool alone);

/* The user will hold the future of a closure that is not scheduled yet. */
void coxi_schedule_hold(struct coxi_closure *closure);

/* As cox_schedule before it schedules: lets the work of an older client run (COX_ENOENT:
 * it needs a function that is not loaded), and reports an error of the run. Unlocks
 * while it waits. */
int coxi_schedule_check(struct cox_coordinator *c) COXI_REQUIRES(c->lock);

#endif
