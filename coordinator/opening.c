/* See opening.h. */
#include "coordinator/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/local.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_claim.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

enum {
    CHECK_MS = 20,  /* time between two looks at a local cluster that is starting */
    TRIED_MS = 1000 /* wait for the first contact with workers beyond min_workers */
};

/* ---- the cluster's list */

struct listed {
    const char *url;
    uint32_t index;
};

static int by_url(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->url, ((const struct listed *)b)->url);
}

/* Checks that no address is listed twice in a role. An address that is listed in both
 * roles is found when the peer greets. */
static int check_list(const char *role, char *const *urls, uint32_t n)
{
    struct listed *all = calloc((size_t)n + 1, sizeof(*all));
    int r = 0;
    if (all == NULL) {
        return coxi_error_memory("a cluster");
    }
    for (uint32_t i = 0; i < n; i++) {
        all[i] = (struct listed){urls[i], i};
    }
    qsort(all, n, sizeof(*all), by_url);
    for (uint32_t i = 1; r == 0 && i < n; i++) {
        uint32_t x = all[i - 1].index;
        uint32_t y = all[i].index;
        if (by_url(&all[i - 1], &all[i]) == 0) {
            r = coxi_error(COX_EINVAL,
                           "the cluster lists %s twice: as %s %u and as %s %u",
                           all[i].url, role, x < y ? x : y, role, x < y ? y : x);
        }
    }
    free(all);
    return r;
}

int coxi_opening_check(const struct cox_cluster *cluster)
{
    bool listed = !cluster->local && cluster->etcd == NULL;
    int r = listed ? check_list("ps", cluster->ps, cluster->n_ps) : 0;
    return r == 0 && !cluster->local
               ? check_list("worker", cluster->workers, cluster->n_workers)
               : r;
}

static int check_local(struct cox_coordinator *c)
{
    return c->site.local != NULL ? coxi_local_check(c->site.local) : 0;
}

/* ---- the ps */

/* The reason why one of the ps will never come, or 0. It is reported at once, even
 * while another ps is waited for. */
static int check_ps(struct cox_coordinator *c)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->ps.n; i++) {
        r = coxi_psc_check(c->ps.clients[i]);
    }
    return r;
}

/* The reason why waiting is useless, or 0. An error of the run comes first, because it
 * says more than the failure of the ps that has ended the run. */
static int check(struct cox_coordinator *c)
{
    int r = check_local(c);
    if (r != 0) {
        return r;
    }
    int alive = coxi_check_alive(c);
    r = check_ps(c);
    return r != 0 ? r : alive;
}

/* Dials another address if the ps has moved meanwhile (discovery.h). */
static int follow(struct cox_coordinator *c, struct coxi_psc *psc)
{
    char url[COXI_URL_MAX + 1];
    coxi_lock(&c->ps.lock);
    (void)snprintf(url, sizeof(url), "%s", c->site.cluster->ps[coxi_psc_index(psc)]);
    coxi_unlock(&c->ps.lock);
    return strcmp(url, coxi_psc_address(psc)) != 0 ? coxi_psc_follow(psc, url, 0) : 0;
}

static int reach(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t end_ms)
{
    int r;
    while ((r = check(c)) == 0 && (r = follow(c, psc)) == 0 &&
           (r = coxi_psc_wait(psc, coxi_left_ms(end_ms, CHECK_MS))) == COX_ETIMEDOUT) {
        if (coxi_now_ms() >= end_ms) {
            char text[COXI_TEXT_MAX];
            (void)snprintf(text, sizeof(text), "%.400s", coxi_error_text());
            int last = coxi_psc_check_last(psc);
            return coxi_error(last != 0 ? last : r, "%s; waited for %d ms", text,
                              c->options.open_timeout_ms);
        }
        coxi_call_why(c, "%.380s", coxi_error_text());
    }
    return r;
}

static int claim(struct cox_coordinator *c, uint32_t ps, uint64_t end_ms)
{
    char text[COXI_TEXT_MAX];
    int r = coxi_ps_claim(c, c->ps.clients[ps], 0, end_ms);
    if (r == 0) {
        return 0;
    }
    (void)snprintf(text, sizeof(text), "%.400s", coxi_error_text());
    int why = check_ps(c); /* a ps that will never come has ended the wait */
    return why != 0 ? why : coxi_error(r, "%s: %s", c->site.cluster->ps[ps], text);
}

int coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->ps.n; i++) {
        r = reach(c, c->ps.clients[i], end_ms);
        if (r == 0) {
            r = claim(c, i, end_ms);
        }
        if (r == 0) {
            coxi_disk_give_up_at(end_ms);
            r = coxi_ps_probe(c, c->ps.clients[i], true, end_ms);
            coxi_disk_give_up_at(UINT64_MAX);
        }
    }
    return coxi_opening_code(c, r);
}

int coxi_opening_code(const struct cox_coordinator *c, int code)
{
    return code != COX_ECANCELLED
               ? code
               : coxi_error(COX_ETIMEDOUT, "cox_open had %d ms: %.400s",
                            c->options.open_timeout_ms, coxi_error_text());
}

int coxi_opening_reason(struct cox_coordinator *c, int code)
{
    int why =
        code != 0 && c->site.local != NULL ? coxi_local_check_lost(c->site.local) : 0;
    return why != 0 ? why : code;
}

/* ---- the workers */

/* The reason why workers will not come, or would come in vain; or 0. */
static int check_workers(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    int r = coxi_check_alive_locked(c);
    if (r != 0) {
        return r;
    }
    if (c->workers->misplaced_code != 0) {
        return coxi_error(c->workers->misplaced_code, "%s", c->workers->misplaced_text);
    }
    /* Do not wait if the workers' failure will not go away. */
    return c->workers->door == NULL &&
                   c->workers->n - c->workers->n_hopeless < c->options.min_workers
               ? coxi_error(c->workers->code, "%s", c->workers->text)
               : 0;
}

/*
 * True if there is a reason to wait: for workers, or, for a moment, for the first
 * contact with listed workers that are not needed, which may show that the list is
 * wrong.
 */
static bool is_waiting(const struct cox_coordinator *c, uint64_t tried_ms)
    COXI_REQUIRES(c->lock)
{
    return c->workers->n_ready < c->options.min_workers ||
           (c->workers->n_untried > 0 && coxi_now_ms() < tried_ms);
}

int coxi_opening_workers(struct cox_coordinator *c, uint64_t end_ms)
{
    uint64_t tried_ms = coxi_now_ms() + TRIED_MS;
    int r;
    coxi_lock(&c->lock);
    while ((r = check_workers(c)) == 0 && is_waiting(c, tried_ms)) {
        uint64_t now = coxi_now_ms();
        if (now >= end_ms) {
            if (c->workers->n_ready < c->options.min_workers) {
                r = coxi_error(c->workers->code == COX_EDENIED ? COX_EDENIED
                                                               : COX_ETIMEDOUT,
                               "%u of %u workers are there after %d ms; %s",
                               c->workers->n_ready, c->options.min_workers,
                               c->options.open_timeout_ms, c->workers->text);
            }
            break;
        }
        coxi_call_why_locked(c, "%u of %u workers are there; %.300s",
                             c->workers->n_ready, c->options.min_workers,
                             c->workers->text);
        struct timespec until = coxi_deadline(coxi_left_ms(end_ms, CHECK_MS));
        (void)coxi_wait_until(&c->life.changed, &c->lock, &until);
        coxi_unlock(&c->lock);
        r = check_local(c);
        coxi_lock(&c->lock);
        if (r != 0) {
            break;
        }
    }
    coxi_unlock(&c->lock);
    return r;
}
