/*
 * See reach.h.
 *
 *   some workers reach the ps    those that do not are in SETUP until they do
 *   no worker that is there      after peer_timeout_ms in which it stays so the ps is lost,
 *   reaches it                   as if its own connection had gone; it may come back, at
 *                                another address too, and is lost again if that does not
 *                                help. After ps_recovery_ms in all the run ends
 *
 * Threads: loop.
 */
#include "coordinator/workers/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/checkpoints/resume.h"
#include "coordinator/closures/closure.h"
#include "coordinator/workers/module.h"

/* Of a ps, while no worker reaches it. */
struct coxi_cut {
    uint64_t first_ms; /* since then; 0: some do */
    uint64_t since_ms; /* since it was lost for that last, or first_ms */
    char text[COXI_TEXT_MAX];
};

/* ---- what workers say */

static void count_cut_off(struct cox_coordinator *c, int change)
{
    coxi_lock(&c->lock);
    c->stats.workers_cut_off += (uint64_t)change;
    coxi_unlock(&c->lock);
}

/* The memory for it, which most clients never need. */
static int prepare(struct coxi_worker *worker)
{
    struct cox_coordinator *c = worker->c;
    if (c->cuts == NULL) {
        c->cuts = calloc(c->n_ps, sizeof(*c->cuts));
    }
    if (worker->unreached == NULL) {
        worker->unreached = calloc(c->n_ps, sizeof(*worker->unreached));
    }
    return c->cuts == NULL || worker->unreached == NULL
               ? coxi_error_memory("a worker that cannot reach a ps")
               : 0;
}

int coxi_reach_told(struct coxi_worker *worker, const struct coxi_status *said)
{
    struct cox_coordinator *c = worker->c;
    bool unreached = said->code != 0;
    if (said->id >= c->n_ps) {
        return coxi_error(COX_EPROTO, "a worker speaks of ps %u", said->id);
    }
    int r = prepare(worker);
    if (r != 0 || worker->unreached[said->id] == unreached) {
        return r;
    }
    bool was_cut_off = worker->n_unreached > 0;
    worker->unreached[said->id] = unreached;
    worker->n_unreached += unreached ? 1 : (uint32_t)-1;
    coxi_event(
        c, unreached ? COX_EVENT_PS_OUT_OF_REACH : COX_EVENT_PS_IN_REACH,
        COXI_OF(.worker = 1 + worker->index, .ps = 1 + said->id, .error = said->code),
        "worker %u at %.100s %s ps %u at %.100s%s%.200s", worker->index, worker->url,
        unreached ? "does not reach" : "reaches", said->id,
        coxi_psc_address(c->ps[said->id]), unreached ? ": " : " again",
        unreached ? said->message : "");
    if (unreached) {
        (void)snprintf(c->cuts[said->id].text, sizeof(c->cuts[said->id].text),
                       "worker %u: %.300s", worker->index, said->message);
        coxi_worker_recall_waiting(worker);
    }
    if (was_cut_off != (worker->n_unreached > 0)) {
        count_cut_off(c, was_cut_off ? -1 : 1);
    }
    if (coxi_worker_takes_work(worker)) {
        coxi_worker_go_on(worker);
    }
    return 0;
}

void coxi_reach_forget(struct coxi_worker *worker)
{
    if (worker->n_unreached > 0) {
        count_cut_off(worker->c, -1);
    }
    free(worker->unreached);
    worker->unreached = NULL;
    worker->n_unreached = 0;
}

/* ---- ps that no worker reaches */

/* No worker that is there reaches ps `p`. */
static bool is_cut(const struct cox_coordinator *c, uint32_t p)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n_workers; i++) {
        const struct coxi_worker *worker = c->workers[i];
        if (coxi_worker_takes_work(worker)) {
            if (worker->n_unreached == 0 || !worker->unreached[p]) {
                return false;
            }
            any = true;
        }
    }
    return any;
}

bool coxi_reach_is_cut(const struct cox_coordinator *c)
{
    for (uint32_t p = 0; c->cuts != NULL && p < c->n_ps; p++) {
        if (c->cuts[p].first_ms != 0) {
            return true;
        }
    }
    return false;
}

static void give_up(struct cox_coordinator *c, uint32_t p, uint64_t now)
{
    struct coxi_cut *cut = &c->cuts[p];
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "no worker reaches it; %.400s", cut->text);
    if (now - cut->first_ms > (uint64_t)c->options.ps_recovery_ms) {
        char full[COXI_TEXT_MAX];
        (void)snprintf(full, sizeof(full), "ps %u at %.100s is lost for %d ms: %.300s",
                       p, coxi_psc_address(c->ps[p]), c->options.ps_recovery_ms, text);
        coxi_fatal(c, COX_EPSLOST, full);
    } else {
        coxi_ps_lost(c, p, text);
    }
}

static void watch_ps(struct cox_coordinator *c, uint32_t p, uint64_t now)
{
    struct coxi_cut *cut = &c->cuts[p];
    if (!is_cut(c, p)) {
        cut->first_ms = 0;
    } else if (cut->first_ms == 0) {
        cut->first_ms = cut->since_ms = now;
    } else if (coxi_ps_recovering(c)) {
        cut->since_ms = now;
    } else if (now - cut->since_ms > (uint64_t)c->options.peer_timeout_ms) {
        cut->since_ms = now;
        give_up(c, p, now);
    }
}

/* ---- nothing stalls in silence */

/* The closure that has run for longest, as far as can be told: the oldest that a worker has. */
static const struct cox_future *find_oldest(const struct cox_coordinator *c)
{
    const struct cox_future *oldest = NULL;
    for (uint32_t i = 0; i < c->n_workers; i++) {
        const struct cox_future *f = c->workers[i]->in_flight.first;
        oldest = f != NULL && (oldest == NULL || f->id < oldest->id) ? f : oldest;
    }
    return oldest;
}

/* What the closures wait for that are not settled. */
static void say_why(struct cox_coordinator *c, const struct cox_future *oldest,
                    uint64_t now)
{
    unsigned long long seconds = coxi_patience_seconds(&c->patience, now);
    char why[COXI_TEXT_MAX];
    coxi_lock(&c->lock);
    uint32_t n_ready = c->n_ready;
    size_t n = c->n_unsettled;
    const struct cox_function *missing = coxi_resume_missing(c);
    (void)snprintf(why, sizeof(why), "%.400s",
                   c->stats.workers_cut_off > 0 ? "workers cannot reach a ps"
                                                : c->worker_text);
    coxi_unlock(&c->lock);
    if (coxi_ps_recovering(c)) {
        (void)snprintf(why, sizeof(why), "a ps is being recovered");
    } else if (n_ready > 0 && oldest != NULL) {
        (void)snprintf(why, sizeof(why), "closure %llu (%s) runs on worker %u",
                       (unsigned long long)oldest->id, oldest->function->name,
                       oldest->worker->index);
    } else if (n_ready > 0 && missing != NULL) {
        (void)snprintf(
            why, sizeof(why),
            "what the client before has left comes first, and waits for '%s' "
            "of module %s, which is not loaded",
            missing->name, missing->module->name);
    } else if (n_ready > 0) {
        (void)snprintf(why, sizeof(why), "%zu wait%s for others, or for a ps", n,
                       n == 1 ? "s" : "");
    }
    coxi_event(c, COX_EVENT_BLOCKED, COXI_OF(.seconds = seconds),
               "none of %zu closure%s is done for %llu s: %.400s (%u worker%s ready)",
               n, coxi_s(n), seconds, why, n_ready, n_ready == 1 ? " is" : "s are");
}

/*
 * That no closure ends is worth a word after 10 s; where closures run that take as long anyway,
 * after three times what those of their function have taken so far.
 */
static void watch_closures(struct cox_coordinator *c, uint64_t now)
{
    coxi_lock(&c->lock);
    uint64_t settled = c->stats.done + c->stats.failed;
    bool waits = c->n_unsettled > c->n_inherited || c->n_queued > 0;
    coxi_unlock(&c->lock);
    if (!waits || settled != c->settled_seen) {
        uint64_t seconds = coxi_patience_seconds(&c->patience, now);
        if (coxi_patience_has_ended(&c->patience)) {
            coxi_event(c, COX_EVENT_UNBLOCKED, COXI_OF(.seconds = seconds),
                       "closures end again, after %llu s", (unsigned long long)seconds);
        }
        c->settled_seen = settled;
        c->patience = (struct coxi_patience){0};
        return;
    }
    const struct cox_future *oldest = find_oldest(c);
    bool long_ones =
        oldest != NULL && oldest->function->n_samples > 0 &&
        (double)(now - c->patience.since_ms) * 1000 < 3 * oldest->function->average_us;
    if ((c->patience.since_ms == 0 || !long_ones) &&
        coxi_patience_ends(&c->patience, now)) {
        say_why(c, oldest, now);
    }
}

void coxi_reach_tick(struct cox_coordinator *c, uint64_t now)
{
    bool over = c->fatal_handled || c->shutting_down;
    for (uint32_t p = 0; c->cuts != NULL && !over && p < c->n_ps; p++) {
        watch_ps(c, p, now);
    }
    if (!over) {
        watch_closures(c, now);
    }
}

void coxi_reach_free(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->n_workers; i++) {
        free(c->workers[i]->unreached);
        c->workers[i]->unreached = NULL;
    }
    free(c->cuts);
    c->cuts = NULL;
}
