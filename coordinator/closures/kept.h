/*
 * Results that stay on the worker that ran the step (cox_call.keep), until the user has
 * freed the future and every call that takes them is settled.
 *
 * Where the values of a closure that is done are:
 *
 *   on a worker    calls that take them run there, and no bytes travel
 *   here           at the client: they came because they were needed here, because the
 *                  worker leaves, or because it had no room for them; or there are none
 *   nowhere        the worker was lost: when they are needed the closure runs again,
 *                  under its own id, and then they are here
 *
 * They may be here and on a worker. Values that are here stay, so no closure has to
 * make them again. If a worker is lost, a closure that runs again may need results that
 * were lost, too, so their closures run again first. Values that are here end this
 * chain. To bound its length, the client fetches the values of every
 * COXI_LINEAGE_MAX-th closure of a chain.
 */
#ifndef COXI_COORDINATOR_CLOSURES_KEPT_H
#define COXI_COORDINATOR_CLOSURES_KEPT_H

#include "coordinator/closures/closure.h"
#include "coordinator/coordinator.h"

enum { COXI_LINEAGE_MAX = 100 };

struct coxi_kept {
    atomic_uint wanted; /* number of users: the user, callbacks, unsettled calls */
    /* Written by the loop, with c->lock, like the future's result. */
    bool here;
    /* Owned by the loop: */
    struct coxi_seat *seat; /* the worker that has them; or NULL */
    uint32_t attempt;       /* the attempt that made them there */
    uint64_t bytes;
    struct coxi_kept *next; /* of the same worker */
    struct coxi_kept **link;
    struct coxi_closure *closure;
    bool asked;                    /* the worker was asked to send them */
    struct coxi_closure *remake;   /* the closure that makes them again; or NULL */
    struct coxi_kept *next_coming; /* in its bucket, while `asked` or `remake` is set */
    /* closures in the chain that would have to run again; 0: the values are here */
    uint32_t lineage;
    uint64_t noted; /* the last backlog that has it (backlog.c) */
    int code;       /* why they were not available when last needed */
    char *text;
    /* Guarded by c->lock: */
    bool listed; /* in c->closures->kept_listed */
    struct coxi_closure *next_listed;
};

/* The results of a closure that is being scheduled will stay with its worker.
 * COX_ENOMEM. */
int coxi_kept_new(struct coxi_closure *closure);
void coxi_kept_free(struct coxi_kept *kept); /* takes NULL */

/* ---- any thread, without c->lock; no effect if the future keeps nothing */

/* Counts a user of the values, or one less. */
void coxi_kept_want(struct coxi_closure *closure);
void coxi_kept_unwant(struct coxi_closure *closure);

/* The replay log has dropped the closure. */
void coxi_kept_unlogged(struct coxi_closure *closure);

/* The loop has ended: releases the closures that it has not looked at. */
void coxi_kept_close(struct cox_coordinator *c);

/* ---- the loop's */

/* Of a closure that is done: whether its values are at the client; which worker has
 * them, or NULL. */
bool coxi_kept_is_here(const struct coxi_closure *closure);
struct coxi_seat *coxi_kept_seat(const struct coxi_closure *closure);

/* coxi_kept_done: an attempt has ended, and the worker keeps `bytes` bytes.
 * coxi_kept_settled: the closure is settled. */
void coxi_kept_done(struct coxi_closure *closure, struct coxi_seat *seat,
                    uint32_t attempt, uint64_t bytes);
void coxi_kept_settled(struct coxi_closure *closure);

/* The closure runs again before it is settled: its results no longer count. */
void coxi_kept_void(struct coxi_closure *closure);

/* An attempt has sent its results instead of keeping them. COX_ENOMEM. */
int coxi_kept_take(struct coxi_closure *closure, const uint8_t *result, size_t len);

/* Tells the worker to drop the results of `attempt`, which does not count. */
void coxi_kept_drop(struct coxi_seat *seat, struct coxi_closure_id id,
                    uint32_t attempt);

/* The values of a closure that is done are needed here: its dependents are told when
 * they have come, or that they are not available (kept->code). */
void coxi_kept_bring(struct coxi_closure *closure);

/* A worker has sent values as it was asked. COX_EPROTO. */
int coxi_kept_sent(struct coxi_seat *seat, const struct coxi_result *result,
                   const void *values, size_t len);

/* coxi_kept_rescue: a worker leaves: asks it for the values that it keeps.
 * coxi_kept_lost: a worker is away, and its values with it. */
void coxi_kept_rescue(struct coxi_seat *seat);
void coxi_kept_lost(struct coxi_seat *seat);

/* The closure that makes the values of closure `id` again, or NULL; coxi_kept_remade:
 * that closure has ended. */
struct coxi_closure *coxi_kept_find_remake(struct cox_coordinator *c,
                                           struct coxi_closure_id id);
void coxi_kept_wait_for_recovery(
    struct cox_coordinator *c); /* none of them is urgent any more */
void coxi_kept_remade(struct coxi_closure *remake);

/* In a turn of the loop: coxi_kept_sweep drops values that nobody needs any more;
 * coxi_kept_flush tells the workers. */
void coxi_kept_sweep(struct cox_coordinator *c);
void coxi_kept_flush(struct cox_coordinator *c);

#endif
