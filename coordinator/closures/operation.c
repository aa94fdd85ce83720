/* See operation.h. The loop sees only that an operation's id is taken, and when it
 * ends. */
#include "coordinator/closures/operation.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/schedule.h"

struct coxi_operation *coxi_operation_new(struct cox_coordinator *c,
                                          struct coxi_closure_id id)
{
    struct coxi_operation *operation = calloc(1, sizeof(*operation));
    if (operation != NULL) {
        operation->c = c;
        operation->id = id;
    }
    return operation;
}

int coxi_operation_room(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = coxi_intake_await_id(c);
    coxi_unlock(&c->lock);
    return r;
}

/* `state`: OPEN if the write begins now. HELD if it happens later, at the place of its
 * id; then calls `listed` with the operation. */
static int begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                 enum coxi_replay_state state, bool wait,
                 void (*listed)(void *arg, struct coxi_operation *operation), void *arg,
                 struct coxi_operation **ret)
{
    struct coxi_operation *operation = coxi_operation_new(c, coxi_closure_id(0));
    if (operation == NULL) {
        return coxi_error_memory("an operation");
    }
    coxi_lock(&c->lock);
    int r = wait ? coxi_intake_await_id(c) : coxi_check_alive_locked(c);
    if (r == 0) {
        what->id = coxi_closure_id(c->ids.next);
        what->position =
            state == COXI_REPLAY_HELD ? what->id.n : coxi_ids_position(&c->ids);
        what->state = state;
        r = coxi_replay_log_operation(c->replay_log, what);
    }
    if (r == 0) {
        coxi_intake_put_operation(c, operation);
        if (listed != NULL) {
            listed(arg, operation);
        }
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        free(operation);
        return r;
    }
    /* the loop takes it in with the next closures, at the latest when it ends */
    *ret = operation;
    return 0;
}

int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct coxi_operation **ret)
{
    return begin(c, what, COXI_REPLAY_OPEN, wait, NULL, NULL, ret);
}

int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct coxi_operation *operation),
                        void *arg)
{
    struct coxi_operation *operation;
    return begin(c, what, COXI_REPLAY_HELD, true, listed, arg, &operation);
}

/* On the loop: the id counts as settled. */
static void end_operation(struct coxi_mail *mail)
{
    struct coxi_operation *operation = (struct coxi_operation *)mail;
    struct cox_coordinator *c = operation->c;
    coxi_dispatch(c); /* so that the loop has taken it in */
    (void)coxi_window_take(&c->closures->unsettled, operation->id.n);
    coxi_lock(&c->lock);
    c->ids.first_unsettled = c->closures->unsettled.first;
    (void)pthread_cond_broadcast(&c->life.room);
    coxi_unlock(&c->lock);
    free(operation);
    coxi_loop_wake_after_mail(c->loop);
}

void coxi_operation_end(struct coxi_operation *operation, enum coxi_operation_end how)
{
    struct cox_coordinator *c = operation->c;
    switch (how) {
    case COXI_OPERATION_DONE:
        coxi_replay_log_set(c->replay_log, operation->id, COXI_REPLAY_DONE);
        break;
    case COXI_OPERATION_NOWHERE:
        coxi_replay_log_retract(c->replay_log, operation->id);
        break;
    case COXI_OPERATION_LOGGED:
        break;
    }
    atomic_fetch_add(&c->closures->view, 1);
    operation->mail.run = end_operation;
    coxi_loop_run_here(c->loop, &operation->mail);
}
