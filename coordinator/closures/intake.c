/* See intake.h. */
#include "coordinator/closures/intake.h"

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/queue.h"

/* length of one wait; then the caller checks again */
enum { ROOM_SLICE_MS = 1000 };

void coxi_intake_put(struct cox_coordinator *c, struct coxi_closure *closure)
{
    closure->future.id = coxi_closure_id(c->ids.next++);
    if (atomic_load(&c->ids.first_closure) == 0) {
        atomic_store(&c->ids.first_closure, closure->future.id.n);
    }
    coxi_list_append(&c->closures->intake.closures, closure);
}

void coxi_intake_put_operation(struct cox_coordinator *c,
                               struct coxi_operation *operation)
{
    struct coxi_intake *intake = &c->closures->intake;
    operation->id = coxi_closure_id(c->ids.next++);
    operation->next = NULL;
    if (intake->last_operation != NULL) {
        intake->last_operation->next = operation;
    } else {
        intake->operations = operation;
    }
    intake->last_operation = operation;
}

/* True while no id may be given out, because the replay log is full until the next
 * checkpoint, or because the ids would run too far ahead. */
static bool is_full_of_ids(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    return c->ids.next - c->ids.first_unsettled >= COXI_AHEAD_MAX ||
           (c->replay_log != NULL &&
            coxi_replay_log_is_full(c->replay_log, c->ids.next));
}

bool coxi_intake_is_full(const struct cox_coordinator *c)
{
    return c->life.n_waiting >= c->options.queue_max || is_full_of_ids(c);
}

void coxi_intake_wait(struct cox_coordinator *c)
{
    struct timespec slice = coxi_deadline(ROOM_SLICE_MS);
    if (coxi_replay_log_is_full(c->replay_log, c->ids.next)) {
        bool failed = c->saving.code != 0;
        coxi_call_why_locked(
            c, "the replay log is full, until a checkpoint is saved%s%.300s",
            failed ? "; the last one failed: " : "", failed ? c->saving.text : "");
    } else if (is_full_of_ids(c)) {
        coxi_call_why_locked(c, "closure %llu must be settled first",
                             (unsigned long long)c->ids.first_unsettled);
    } else {
        coxi_call_why_locked(c, "the queue is full, with %zu closure%s",
                             c->life.n_waiting, coxi_s(c->life.n_waiting));
    }
    (void)coxi_wait_until(&c->life.room, &c->lock, &slice);
}

int coxi_intake_await_id(struct cox_coordinator *c)
{
    int r = coxi_check_alive_locked(c);
    while (r == 0 && is_full_of_ids(c)) {
        coxi_intake_wait(c);
        r = coxi_check_alive_locked(c);
    }
    return r;
}
