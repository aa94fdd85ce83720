/* See operation.h. The loop sees of an operation that its id is taken, and when it ends. */
#include "coordinator/closures/operation.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/intake.h"

int coxi_operation_room(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = coxi_intake_await_id(c);
    coxi_unlock(&c->lock);
    return r;
}

/* `state`: OPEN, at its place among what is written now; or HELD, at that of its id, and then
 * `listed` is called with it. */
static int begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                 enum coxi_replay_state state, bool wait,
                 void (*listed)(void *arg, struct cox_future *operation), void *arg,
                 struct cox_future **ret)
{
    struct cox_future *f = NULL;
    int r = coxi_closure_new(c, NULL, NULL, 0, &f);
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->lock);
    r = wait ? coxi_intake_await_id(c) : coxi_check_alive_locked(c);
    if (r == 0) {
        what->id = c->ids.next;
        what->position =
            state == COXI_REPLAY_HELD ? what->id : coxi_ids_position(&c->ids);
        what->state = state;
        r = coxi_replay_log_operation(c->replay_log, what);
    }
    if (r == 0) {
        coxi_intake_put(c, f);
        if (listed != NULL) {
            listed(arg, f);
        }
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        free(f);
        return r;
    }
    *ret = f; /* the loop takes it in with what comes next, at the latest its end */
    return 0;
}

int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct cox_future **ret)
{
    return begin(c, what, COXI_REPLAY_OPEN, wait, NULL, NULL, ret);
}

int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct cox_future *operation),
                        void *arg)
{
    struct cox_future *f;
    return begin(c, what, COXI_REPLAY_HELD, true, listed, arg, &f);
}

struct operation_end {
    struct coxi_mail mail;
    struct cox_future *operation;
};

/* On the loop: the id counts as settled. */
static void end_operation(struct coxi_mail *mail)
{
    struct operation_end *end = (struct operation_end *)mail;
    struct cox_future *f = end->operation;
    struct cox_coordinator *c = f->c;
    coxi_dispatch(c); /* so that it has been taken in */
    (void)coxi_window_take(&c->closures->unsettled, f->id);
    coxi_lock(&c->lock);
    c->ids.first_unsettled = c->closures->unsettled.first;
    (void)pthread_cond_broadcast(&c->life.room);
    coxi_unlock(&c->lock);
    free(f);
    free(end);
    coxi_loop_wake_after_mail(c->loop);
}

void coxi_operation_end(struct cox_future *operation, enum coxi_operation_end how)
{
    struct cox_coordinator *c = operation->c;
    struct operation_end *end = malloc(sizeof(*end));
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
    if (end == NULL) {
        return; /* the watermark stops here: safe, and there is no memory for more
                   anyway */
    }
    end->mail.run = end_operation;
    end->operation = operation;
    coxi_loop_run_here(c->loop, &end->mail);
}
