/*
 * See watch.h. A closure that only one worker may run fails when that worker was away
 * for too long; the others fail when every worker was (losses.c says how long). If no
 * scheduled closure ends, the user is told why.
 *
 * Threads: loop. Cost: O(workers) in a tick.
 */
#include "coordinator/closures/watch.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/losses.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/module.h"

/* ---- missing workers */

/* Ends the closures that only this worker may run when it was away for too long. */
static void watch_own(struct coxi_seat *seat, uint64_t now)
{
    struct cox_coordinator *c = seat->c;
    if (coxi_worker_will_be_ready(seat->worker) || seat->queue.n == 0) {
        seat->wanted_since_ms = 0;
    } else if (seat->wanted_since_ms == 0) {
        seat->wanted_since_ms = now;
    } else if (now - seat->wanted_since_ms > (uint64_t)coxi_losses_wait_ms(c)) {
        seat->wanted_since_ms = 0; /* closures that come now wait as long */
        char text[COXI_TEXT_MAX];
        coxi_closures_leave_home(seat);
        (void)snprintf(
            text, sizeof(text),
            "worker %u at %.300s, which alone may run it, was away for %d ms",
            seat->worker->index, seat->worker->url, coxi_losses_wait_ms(c));
        coxi_closures_fail_queue(&seat->queue, COX_ENOWORKER, text);
    }
}

/* Ends the closures that any worker may run when none has been there for too long. */
static void watch_all(struct cox_coordinator *c, bool any_ready, uint64_t now)
{
    if (any_ready || c->closures->n_queued == 0) {
        c->closures->idle_since_ms = 0;
    } else if (c->closures->idle_since_ms == 0) {
        c->closures->idle_since_ms = now;
    } else if (now - c->closures->idle_since_ms > (uint64_t)coxi_losses_wait_ms(c)) {
        c->closures->idle_since_ms = 0; /* closures that come now wait as long */
        char text[COXI_TEXT_MAX + 64];
        coxi_lock(&c->lock);
        (void)snprintf(text, sizeof(text), "no worker for %d ms; the last: %s",
                       coxi_losses_wait_ms(c), c->workers->text);
        coxi_unlock(&c->lock);
        coxi_closures_fail(c, COX_ENOWORKER, text);
    }
}

/* ---- nothing stalls in silence */

/* The closure that has probably run for longest: the oldest that any worker has. */
static const struct coxi_closure *find_oldest(const struct cox_coordinator *c)
{
    const struct coxi_closure *oldest = NULL;
    for (uint32_t i = 0; i < c->workers->n; i++) {
        const struct coxi_closure *closure = c->workers->all[i]->seat->in_flight.first;
        oldest = closure != NULL &&
                         (oldest == NULL || closure->future.id.n < oldest->future.id.n)
                     ? closure
                     : oldest;
    }
    return oldest;
}

/* Reports what the unsettled closures wait for. */
static void say_why(struct cox_coordinator *c, const struct coxi_closure *oldest,
                    uint64_t now)
{
    unsigned long long seconds = coxi_patience_seconds(&c->closures->patience, now);
    char why[COXI_TEXT_MAX];
    coxi_lock(&c->lock);
    uint32_t n_ready = c->workers->n_ready;
    size_t n = c->life.n_unsettled;
    const struct cox_function *missing = coxi_gate_missing(c);
    (void)snprintf(why, sizeof(why), "%.400s",
                   c->counts.stats.workers_cut_off > 0 ? "workers cannot reach a ps"
                                                       : c->workers->text);
    coxi_unlock(&c->lock);
    if (coxi_ps_recovering(c)) {
        (void)snprintf(why, sizeof(why), "a ps is being recovered");
    } else if (n_ready > 0 && oldest != NULL) {
        (void)snprintf(why, sizeof(why), "closure %llu (%s) runs on worker %u",
                       (unsigned long long)oldest->future.id.n, oldest->function->name,
                       oldest->seat->worker->index);
    } else if (n_ready > 0 && missing != NULL) {
        (void)snprintf(why, sizeof(why),
                       "the closures of the client before this one come first, and "
                       "need '%s' of module %s, which is not loaded",
                       missing->name, missing->module->name);
    } else if (n_ready > 0) {
        (void)snprintf(why, sizeof(why), "%zu wait%s for others, or for a ps", n,
                       n == 1 ? "s" : "");
    }
    coxi_event(c, COX_EVENT_BLOCKED, COXI_OF(.seconds = seconds),
               "none of %zu closure%s is done for %llu s: %.400s (%u worker%s ready)",
               n, coxi_s(n), seconds, why, n_ready, n_ready == 1 ? " is" : "s are");
}

/* Reports after 10 s that no closure ends; if the running closures usually take that
 * long, after three times the average of their function. */
static void watch_closures(struct cox_coordinator *c, uint64_t now)
{
    coxi_lock(&c->lock);
    uint64_t settled = c->counts.stats.done + c->counts.stats.failed;
    bool waits = c->life.n_unsettled > c->life.n_inherited || c->closures->n_queued > 0;
    coxi_unlock(&c->lock);
    if (!waits || settled != c->closures->settled_seen) {
        uint64_t seconds = coxi_patience_seconds(&c->closures->patience, now);
        if (coxi_patience_has_ended(&c->closures->patience)) {
            coxi_event(c, COX_EVENT_UNBLOCKED, COXI_OF(.seconds = seconds),
                       "closures end again, after %llu s", (unsigned long long)seconds);
        }
        c->closures->settled_seen = settled;
        c->closures->patience = (struct coxi_patience){0};
        return;
    }
    const struct coxi_closure *oldest = find_oldest(c);
    bool long_ones = oldest != NULL && oldest->function->n_samples > 0 &&
                     (double)(now - c->closures->patience.since_ms) * 1000 <
                         3 * oldest->function->average_us;
    if ((c->closures->patience.since_ms == 0 || !long_ones) &&
        coxi_patience_ends(&c->closures->patience, now)) {
        say_why(c, oldest, now);
    }
}

void coxi_watch_tick(struct cox_coordinator *c)
{
    uint64_t now = coxi_now_ms();
    bool any_ready = false;
    coxi_losses_tick(c);
    for (uint32_t i = 0; i < c->workers->n; i++) {
        any_ready = any_ready || coxi_worker_will_be_ready(c->workers->all[i]);
        watch_own(c->workers->all[i]->seat, now);
    }
    if (!c->phase.fatal_handled && !c->phase.shutting_down) {
        watch_closures(c, now);
    }
    watch_all(c, any_ready, now);
}
