/* Queues closures, and settles them. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_SETTLE_H
#define COXI_COORDINATOR_CLOSURES_SETTLE_H

#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/voiding.h"
#include "coordinator/coordinator.h"

/* _enqueue puts a closure after (`first`: before) all others of its priority; _dequeue
 * takes it out. */
void coxi_closure_enqueue(struct coxi_closure *closure, bool first);
void coxi_closure_dequeue(struct coxi_closure *closure);

/* Sets whether the batch that is replayed needs a closure that runs again. If so, the
 * closure and those that make its inputs run while ps are recovered. */
void coxi_closure_set_urgent(struct coxi_closure *closure, bool urgent);

/* Settles a closure for good; users are told at the end of this turn. */
void coxi_closure_settle(struct coxi_closure *closure,
                         const struct coxi_ending *ending);

/*
 * An older client had settled this held closure as done: sets it done. It is in no list
 * and does not count as waiting. Its results do not exist until other closures need
 * them. Drops the reference.
 */
void coxi_closure_be_done(struct coxi_closure *closure);

/* Ends a closure that is in no list. If a part of it may be applied without a report,
 * the ps are asked first, and their answers decide. Copies what `ending` points to. */
void coxi_closure_end(struct coxi_closure *closure, const struct coxi_ending *ending);
void coxi_closure_fail(struct coxi_closure *closure, int code, const char *text);
void coxi_closure_cancel(struct coxi_closure *closure, const char *text);

/* A ps has lost the commits of a STAGED closure: puts it at the head of the queue. */
void coxi_closure_stage_again(struct coxi_closure *closure);

/* The ps were asked about a closure that we believed done, and it is not done: puts it
 * at the head of the queue again. */
void coxi_closure_run_again(struct coxi_closure *closure);

/* All of a VOIDING closure is applied, but its results are lost: puts it at the head of
 * the queue again. It cannot be cancelled any more. */
void coxi_closure_run_for_results(struct coxi_closure *closure);

/* Closures that wait for this worker because it has their inputs do not wait for it any
 * more. */
void coxi_closures_leave_home(struct coxi_seat *seat);

/* Events of interest to recovery (c->closures->events; NULL if no ps comes back).
 * Loop. */
struct coxi_closure_events {
    /* A closure that runs again is settled; it may have run for a ps that has come
     * back. */
    void (*replayed)(struct coxi_closure *closure);
    /* The ps were asked about the closure's end, and one of them is or was lost:
     * recovery asks again when all are UP. Copies what `ending` points to. */
    void (*void_later)(struct coxi_closure *closure, const struct coxi_ending *ending);
};

/* The closure with id `id` if it is not settled or is being replayed; or NULL. The
 * replay of a closure that is STAGED comes before that. */
struct coxi_closure *coxi_closure_find(struct cox_coordinator *c,
                                       struct coxi_closure_id id);

/* Like coxi_closure_find, but if that finds none, returns the closure that makes the
 * kept results of `id` again; or NULL. */
struct coxi_closure *coxi_closure_find_running(struct cox_coordinator *c,
                                               struct coxi_closure_id id);

/* For the replay log (base/replay_log.h). */
uint64_t coxi_closure_logged_bytes(const struct coxi_closure *closure);
void coxi_closure_forgotten(struct coxi_closure *closure);

/* Logs a closure that is done, unless it has touched no ps. COX_ENOMEM. */
int coxi_closure_log(struct coxi_replay_log *log, struct coxi_closure *closure,
                     const uint32_t *touched, size_t n_touched);

/*
 * coxi_closures_fail_queue ends the closures of a queue; coxi_closures_fail ends all
 * WAITING or QUEUED closures. Cancelling spares closures that count on some ps (those
 * that run again for results or for a ps that comes back), except at close.
 */
void coxi_closures_fail_queue(struct coxi_queue *queue, int code, const char *text);
void coxi_closures_fail(struct cox_coordinator *c, int code, const char *text);

/* Tells users which closures were settled in this turn of the loop. */
void coxi_closures_tell(struct cox_coordinator *c);

#endif
