/*
 * See reach.h.
 *
 *   some workers reach the ps    those that do not are in SETUP until they do
 *   no connected worker          if that lasts for peer_timeout_ms, the ps is lost, as
 *   reaches it                   if its own connection had ended. It may come back,
 *                                also at another address, and is lost again if that
 *                                does not help. After ps_recovery_ms in all the run
 *                                ends
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
#include "coordinator/base/ps_claim.h"
#include "coordinator/base/ps_set.h"
#include "net/ps_client.h"

/* A ps that no worker reaches. */
struct coxi_cut {
    uint64_t first_ms; /* since when no worker reaches it; 0: some do */
    uint64_t since_ms; /* when it was last declared lost for that reason, or first_ms */
    char text[COXI_TEXT_MAX];
};

/* ---- reports of workers */

static void count_cut_off(struct cox_coordinator *c, int change)
{
    coxi_lock(&c->lock);
    c->counts.stats.workers_cut_off += (uint64_t)change;
    coxi_unlock(&c->lock);
}

/* Allocates the memory for it, which most clients never need. */
static int prepare(struct coxi_worker *worker)
{
    struct cox_coordinator *c = worker->c;
    if (c->workers->cuts == NULL) {
        c->workers->cuts = calloc(c->ps.n, sizeof(*c->workers->cuts));
    }
    if (worker->unreached == NULL) {
        worker->unreached = calloc(c->ps.n, sizeof(*worker->unreached));
    }
    return c->workers->cuts == NULL || worker->unreached == NULL
               ? coxi_error_memory("a worker that cannot reach a ps")
               : 0;
}

int coxi_reach_told(struct coxi_worker *worker, const struct coxi_status *said)
{
    struct cox_coordinator *c = worker->c;
    bool unreached = said->code != 0;
    if (said->id >= c->ps.n) {
        return coxi_error(COX_EPROTO, "a worker speaks of ps %u", said->id);
    }
    int r = prepare(worker);
    if (r != 0 || worker->unreached[said->id] == unreached) {
        return r;
    }
    bool was_cut_off = worker->n_unreached > 0;
    worker->unreached[said->id] = unreached;
    worker->n_unreached += unreached ? 1 : (uint32_t)-1;
    coxi_event(c, unreached ? COX_EVENT_PS_OUT_OF_REACH : COX_EVENT_PS_IN_REACH,
               COXI_OF(.worker = coxi_maybe_of(worker->index),
                       .ps = coxi_maybe_of(said->id), .error = said->code),
               "worker %u at %.100s %s ps %u at %.100s%s%.200s", worker->index,
               worker->url, unreached ? "does not reach" : "reaches", said->id,
               coxi_psc_address(c->ps.clients[said->id]), unreached ? ": " : " again",
               unreached ? said->message : "");
    if (unreached) {
        (void)snprintf(c->workers->cuts[said->id].text,
                       sizeof(c->workers->cuts[said->id].text), "worker %u: %.300s",
                       worker->index, said->message);
        c->workers->events->cut_off(worker);
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

/* True if no connected worker reaches ps `p`. */
static bool is_cut(const struct cox_coordinator *c, uint32_t p)
{
    bool any = false;
    for (uint32_t i = 0; i < c->workers->n; i++) {
        const struct coxi_worker *worker = c->workers->all[i];
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
    for (uint32_t p = 0; c->workers->cuts != NULL && p < c->ps.n; p++) {
        if (c->workers->cuts[p].first_ms != 0) {
            return true;
        }
    }
    return false;
}

static void give_up(struct cox_coordinator *c, uint32_t p, uint64_t now)
{
    struct coxi_cut *cut = &c->workers->cuts[p];
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "no worker reaches it; %.400s", cut->text);
    if (now - cut->first_ms > (uint64_t)c->options.ps_recovery_ms) {
        char full[COXI_TEXT_MAX];
        (void)snprintf(full, sizeof(full), "ps %u at %.100s is lost for %d ms: %.300s",
                       p, coxi_psc_address(c->ps.clients[p]), c->options.ps_recovery_ms,
                       text);
        coxi_fatal(c, COX_EPSLOST, full);
    } else {
        coxi_ps_lost(c, p, text);
    }
}

static void watch_ps(struct cox_coordinator *c, uint32_t p, uint64_t now)
{
    struct coxi_cut *cut = &c->workers->cuts[p];
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

void coxi_reach_tick(struct cox_coordinator *c, uint64_t now)
{
    bool over = c->phase.fatal_handled || c->phase.shutting_down;
    for (uint32_t p = 0; c->workers->cuts != NULL && !over && p < c->ps.n; p++) {
        watch_ps(c, p, now);
    }
}

void coxi_reach_free(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->workers->n; i++) {
        free(c->workers->all[i]->unreached);
        c->workers->all[i]->unreached = NULL;
    }
    free(c->workers->cuts);
    c->workers->cuts = NULL;
}
