/* See ps_set.h. */
#include "coordinator/base/ps_set.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/coordinator.h"
#include "net/ps_client.h"

enum { SLICE_MS = 50 }; /* length of one wait; then it checks whether the run goes on */

void coxi_ps_set_init(struct coxi_ps_set *set)
{
    coxi_mutex_init(&set->lock);
    coxi_cond_init(&set->changed);
}

int coxi_ps_set_reserve(struct coxi_ps_set *set, uint32_t n)
{
    set->clients = calloc(n + 1, sizeof(*set->clients));
    set->states = calloc(n + 1, sizeof(*set->states));
    return set->clients != NULL && set->states != NULL
               ? 0
               : coxi_error_memory("connections to ps");
}

void coxi_ps_set_fini(struct coxi_ps_set *set)
{
    (void)pthread_cond_destroy(&set->changed);
    coxi_mutex_fini(&set->lock);
    free(set->states);
    free(set->clients);
}

bool coxi_ps_any_lost(const struct cox_coordinator *c, bool owed)
{
    const struct coxi_ps_state *states = c->ps.states;
    for (uint32_t p = 0; p < c->ps.n; p++) {
        if (states[p].lost || (owed && states[p].owed)) {
            return true;
        }
    }
    return false;
}

bool coxi_ps_may_return(const struct cox_coordinator *c)
{
    return atomic_load(&c->ps.recovers);
}

bool coxi_ps_recovering(const struct cox_coordinator *c)
{
    return atomic_load(&c->ps.under_way);
}

uint64_t coxi_ps_losses(struct cox_coordinator *c)
{
    struct coxi_ps_set *set = &c->ps;
    coxi_lock(&set->lock);
    uint64_t n = set->n_losses;
    coxi_unlock(&set->lock);
    return n;
}

bool coxi_ps_unless_lost(struct cox_coordinator *c, uint64_t n_losses,
                         void (*run)(void *arg), void *arg)
{
    struct coxi_ps_set *set = &c->ps;
    coxi_lock(&set->lock);
    bool known = set->n_losses == n_losses;
    if (known) {
        run(arg);
    }
    coxi_unlock(&set->lock);
    return known;
}

uint64_t coxi_ps_watermark(struct cox_coordinator *c, uint32_t ps, uint64_t watermark)
{
    struct coxi_ps_set *set = &c->ps;
    coxi_lock(&set->lock);
    const struct coxi_ps_state *state = &set->states[ps];
    uint64_t most = state->lost || state->owed ? state->watermark : watermark;
    coxi_unlock(&set->lock);
    return most < watermark ? most : watermark;
}

void coxi_ps_incarnations(struct cox_coordinator *c, uint64_t *ret)
{
    for (uint32_t p = 0; p < c->ps.n; p++) {
        ret[p] = coxi_psc_incarnation(c->ps.clients[p]);
    }
}

int coxi_ps_wait(struct cox_coordinator *c)
{
    struct coxi_ps_set *set = &c->ps;
    int r = coxi_check_alive(c);
    coxi_lock(&set->lock);
    while (r == 0 && coxi_ps_any_lost(c, true) && !set->stop) {
        struct timespec until = coxi_deadline(SLICE_MS);
        (void)coxi_wait_until(&set->changed, &set->lock, &until);
        coxi_unlock(&set->lock);
        r = coxi_check_alive(c); /* the ps may have been given up */
        coxi_lock(&set->lock);
    }
    coxi_unlock(&set->lock);
    return r;
}

int coxi_ps_moment(struct cox_coordinator *c, uint64_t *ret_incarnations)
{
    uint64_t n_losses;
    int r;
    do {
        n_losses = coxi_ps_losses(c);
        r = coxi_ps_wait(c);
        coxi_ps_incarnations(c, ret_incarnations);
    } while (r == 0 && coxi_ps_losses(c) != n_losses);
    return r;
}

/* A ps has answered that it is lost to us. Its connection ends for the same reason:
 * waits a moment for that, so that requests are not repeated as fast as they fail. */
static void await_loss(struct cox_coordinator *c)
{
    struct coxi_ps_set *set = &c->ps;
    coxi_lock(&set->lock);
    if (!coxi_ps_any_lost(c, true) && !set->stop) {
        struct timespec until = coxi_deadline(SLICE_MS);
        (void)coxi_wait_until(&set->changed, &set->lock, &until);
    }
    coxi_unlock(&set->lock);
}

bool coxi_ps_again(struct cox_coordinator *c, int *code)
{
    if (*code != COX_EPSLOST || !coxi_ps_may_return(c)) {
        return false;
    }
    await_loss(c);
    int r = coxi_ps_wait(c);
    *code = r != 0 ? r : *code;
    return r == 0;
}

/* ---- for the loop */

bool coxi_ps_replaying(const struct cox_coordinator *c)
{
    return c->ps.batch_open && !atomic_load(&c->ps.any_lost);
}

uint64_t coxi_ps_reached(const struct cox_coordinator *c)
{
    return !coxi_ps_recovering(c) ? UINT64_MAX
           : coxi_ps_replaying(c) ? c->ps.reached
                                  : 0;
}

bool coxi_ps_is_stale(const struct cox_coordinator *c, uint64_t epoch,
                      const uint32_t *touched, size_t n_touched)
{
    const struct coxi_ps_set *set = &c->ps;
    for (size_t i = 0; i < n_touched; i++) {
        if (touched[i] < c->ps.n && set->states[touched[i]].epoch > epoch) {
            return true;
        }
    }
    return false;
}
