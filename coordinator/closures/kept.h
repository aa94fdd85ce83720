/*
 * Results that stay on the worker that ran the step (cox_call.keep), until the user has
 * freed the future and every call that takes them is settled.
 *
 * Where the values of a closure that is done are:
 *
 *   on a worker    what takes them runs there, and no bytes travel
 *   here           at the client: they came since somebody needed them here, the worker
 *                  leaves, or it had no room for them; or there are none
 *   nowhere        the worker was lost: when they are needed the closure runs again, under
 *                  its own id, and they are here then
 *
 * They may be here and on a worker. What is here stays, so that nothing is made again twice,
 * and ends a line of closures that would have to run again for each other; every
 * COXI_LINEAGE_MAX-th in such a line is brought here for that.
 */
#ifndef COXI_COORDINATOR_CLOSURES_KEPT_H
#define COXI_COORDINATOR_CLOSURES_KEPT_H

#include "coordinator/closures/closures.h"
#include "coordinator/coordinator.h"

enum { COXI_LINEAGE_MAX = 100 };

struct coxi_kept {
    atomic_uint wanted; /* by the user, callbacks, calls that are not settled */
    /* Written by the loop, with c->lock, as is the future's result. */
    bool here;
    /* The loop's own: */
    struct coxi_seat *seat; /* who has them; or NULL */
    uint32_t attempt;       /* that made them there */
    uint64_t bytes;
    struct coxi_kept *next; /* of the worker's */
    struct coxi_kept **link;
    struct coxi_closure *closure;
    bool asked;                    /* the worker is to send them */
    struct coxi_closure *remake;   /* what makes them again; or NULL */
    struct coxi_kept *next_coming; /* in its bucket, while one of the two is */
    uint32_t lineage; /* closures in a line that end here with nothing here */
    uint64_t noted;   /* for which backlog, last (backlog.c) */
    int code;         /* why they could not be had when last needed */
    char *text;
    /* Guarded by c->lock: */
    bool listed; /* in c->closures->kept_listed */
    struct coxi_closure *next_listed;
};

/* What a closure that is being scheduled returns is to stay with its worker. COX_ENOMEM. */
int coxi_kept_new(struct coxi_closure *closure);
void coxi_kept_free(struct coxi_kept *kept); /* takes NULL */

/* ---- any thread, without c->lock; nothing for a future that keeps nothing */

/* Somebody needs the values, or does not any more. */
void coxi_kept_want(struct coxi_closure *closure);
void coxi_kept_unwant(struct coxi_closure *closure);

/* The replay log does not need the closure any more. */
void coxi_kept_unlogged(struct coxi_closure *closure);

/* The loop has ended: lets go of what it has not come to. */
void coxi_kept_close(struct cox_coordinator *c);

/* ---- the loop's */

/* The values of one that is done are at the client; which worker has them, or NULL. */
bool coxi_kept_is_here(const struct coxi_closure *closure);
struct coxi_seat *coxi_kept_seat(const struct coxi_closure *closure);

/* An attempt has ended: the worker keeps so many bytes. And the closure is settled. */
void coxi_kept_done(struct coxi_closure *closure, struct coxi_seat *seat,
                    uint32_t attempt, uint64_t bytes);
void coxi_kept_settled(struct coxi_closure *closure);

/* The closure is to run again before it is settled: what it has returned counts for nothing. */
void coxi_kept_void(struct coxi_closure *closure);

/* An attempt has sent what it returned instead. COX_ENOMEM. */
int coxi_kept_take(struct coxi_closure *closure, const uint8_t *result, size_t len);

/* The worker is to let go of what that attempt has returned: it counts for nothing. */
void coxi_kept_drop(struct coxi_seat *seat, uint64_t id, uint32_t attempt);

/* The values of one that is done are needed here: its dependents are told when they have
 * come, or cannot be had (kept->code). */
void coxi_kept_bring(struct coxi_closure *closure);

/* A worker has sent what it was asked for. COX_EPROTO. */
int coxi_kept_sent(struct coxi_seat *seat, const struct coxi_result *result,
                   const void *values, size_t len);

/* A worker leaves: asks it for what it keeps. And is away: that is nowhere now. */
void coxi_kept_rescue(struct coxi_seat *seat);
void coxi_kept_lost(struct coxi_seat *seat);

/* What makes the values of closure `id` again, or NULL; the end of that. */
struct coxi_closure *coxi_kept_find_remake(struct cox_coordinator *c, uint64_t id);
void coxi_kept_wait_for_recovery(
    struct cox_coordinator *c); /* none is urgent any more */
void coxi_kept_remade(struct coxi_closure *remake);

/* In a turn of the loop: lets go of what nobody wants any more; tells the workers. */
void coxi_kept_sweep(struct cox_coordinator *c);
void coxi_kept_flush(struct cox_coordinator *c);

#endif
