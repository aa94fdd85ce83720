/* Closures' places in line, and their end. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_SETTLE_H
#define COXI_COORDINATOR_CLOSURES_SETTLE_H

#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/queue.h"
#include "coordinator/closures/voiding.h"
#include "coordinator/coordinator.h"

/* Into line behind (`first`: before) those of its priority; and out of it. */
void coxi_closure_enqueue(struct coxi_closure *closure, bool first);
void coxi_closure_dequeue(struct coxi_closure *closure);

/* One that runs again is needed by the batch that is replayed, and so are its inputs: it runs
 * while ps are recovered. Or it is not needed any more. */
void coxi_closure_set_urgent(struct coxi_closure *closure, bool urgent);

/* Ends a closure for good; it is told of at the end of this turn. */
void coxi_closure_settle(struct coxi_closure *closure,
                         const struct coxi_ending *ending);

/* A closure that an older client had settled as done, and that was held, in no list and not
 * counted as waiting: it is done. What it returned is nowhere, until others need it. Drops the
 * reference. */
void coxi_closure_be_done(struct coxi_closure *closure);

/*
 * Ends a closure that is on no list. Where something of it may be applied of which
 * nobody has told, the ps are asked first and have the last word. What `ending` points
 * to is copied.
 */
void coxi_closure_end(struct coxi_closure *closure, const struct coxi_ending *ending);
void coxi_closure_fail(struct coxi_closure *closure, int code, const char *text);
void coxi_closure_cancel(struct coxi_closure *closure, const char *text);

/* A closure that we believed done, and whose end the ps were asked about, is not: it is first
 * in line again. */
void coxi_closure_run_again(struct coxi_closure *closure);

/* All of a VOIDING closure is applied, but what it returned is lost: it is first in line
 * again, and can be cancelled no more. */
void coxi_closure_run_for_results(struct coxi_closure *closure);

/* What waits in line for the worker since that has its inputs does not any more. */
void coxi_closures_leave_home(struct coxi_seat *seat);

/* What recovery does about closures (c->closures->events; NULL where no ps comes back). Loop. */
struct coxi_closure_events {
    /* A closure that runs again is settled, maybe for a ps that has come back. */
    void (*replayed)(struct coxi_closure *closure);
    /* The closure's voiding met a ps that is lost, or was: ask again when all are UP. Copies
     * what `ending` points to. */
    void (*void_later)(struct coxi_closure *closure, const struct coxi_ending *ending);
};

/* The closure of that id: one that is not settled, or is being replayed; or NULL. */
struct coxi_closure *coxi_closure_find(struct cox_coordinator *c, uint64_t id);

/* The same, or what makes again the results that it kept. */
struct coxi_closure *coxi_closure_find_running(struct cox_coordinator *c, uint64_t id);

/* What the replay log does with closures (base/replay_log.h). */
uint64_t coxi_closure_logged_bytes(const struct coxi_closure *closure);
void coxi_closure_forgotten(struct coxi_closure *closure);

/* A closure that is done goes into the replay log, unless it has touched no ps. COX_ENOMEM. */
int coxi_closure_log(struct coxi_replay_log *log, struct coxi_closure *closure,
                     const uint32_t *touched, size_t n_touched);

/* Ends what is in a queue; all that is in line. Cancelling spares closures that are done on
 * some ps (those that run again for results or for a ps that comes back), except at close. */
void coxi_closures_fail_queue(struct coxi_queue *queue, int code, const char *text);
void coxi_closures_fail(struct cox_coordinator *c, int code, const char *text);

/* Tells users what has been settled in this turn of the loop. */
void coxi_closures_tell(struct cox_coordinator *c);

#endif
