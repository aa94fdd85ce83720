/*
 * See recovery.h. A thread of its own does everything that waits: connecting,
 * restoring, replaying. Everything about closures is done by the loop, to which that
 * thread posts mail, and for which it waits.
 *
 * A pass brings back every lost ps, all at the same time. Then it replays, by rising
 * id, everything that the restored ps lack. Calls run side by side up to the next
 * operation of the client itself; that operation waits for them. If a ps is lost
 * meanwhile, another pass begins. It replays some entries a second time; they still
 * count once, because each ps knows what it has applied.
 *
 * Invariants
 *   - a replay is a separate closure with the id of a settled one; no user holds its
 *     future; it is in `replays` until it has ended
 *   - a replay is dispatched only when every ps has everything with a lower id; if
 *     another ps is lost meanwhile, unfinished replays are abandoned, and the next pass
 *     begins them again in order
 *   - no ps is told a watermark that passes a closure which it still lacks
 *
 * Threads: its own; one for each ps that is away; the loop; users' threads where
 * recovery.h says so. Locks: `lock` comes after c->lock and before the log's.
 */
#include "coordinator/recovery/recovery_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hold.h"
#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/resource.h"
#include "net/ps_client.h"

static void base_fini(struct coxi_recovery_base *base, uint32_t n_ps)
{
    for (uint32_t p = 0; base->shards != NULL && p < n_ps; p++) {
        coxi_applied_list_fini(&base->shards[p].applied);
    }
    free(base->shards);
    free(base->path);
    coxi_hold_release(base->hold);
}

/* ---- the state of the ps */

/*
 * Notes that a ps is lost: it has ps_recovery_ms to come back. If it is lost again
 * while it still lacks something, and soon, it gets no new time, because the replay
 * itself may be what kills it.
 */
static void begin_absence(struct coxi_recovery *rec, uint32_t p)
    COXI_REQUIRES(rec->set->lock)
{
    struct coxi_recovery_server *server = &rec->servers[p];
    struct coxi_ps_state *state = &rec->set->states[p];
    uint64_t now = coxi_now_ms();
    uint64_t time_ms = (uint64_t)rec->c->options.ps_recovery_ms;
    if (!state->lost && (!state->owed || now - server->back_ms > time_ms)) {
        server->end_ms = now + time_ms;
    }
    state->lost = true;
}

/*
 * Ps p is lost. If all are set back with it, the others count as lost, too: they begin
 * new incarnations, and are restored from the same checkpoint. Until then they still
 * answer, which does no harm: what they acknowledge is in the log, and done again.
 */
static void set_others_back(struct coxi_recovery *rec, uint32_t p)
    COXI_REQUIRES(rec->set->lock)
{
    uint64_t end_ms = coxi_now_ms() + (uint64_t)rec->c->options.ps_recovery_ms;
    for (uint32_t q = 0; q < rec->c->ps.n; q++) {
        struct coxi_recovery_server *server = &rec->servers[q];
        server->renews = true;
        if (q != p && !rec->set->states[q].lost) {
            server->is_set_back = true;
            server->end_ms = end_ms;
            rec->set->states[q].lost = true;
        }
    }
}

bool coxi_recovery_lost(struct cox_coordinator *c, const struct coxi_psc *psc,
                        const char *text)
{
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL) {
        return false;
    }
    coxi_lock(&rec->set->lock);
    uint32_t p = coxi_psc_index(psc);
    if (c->ps.clients[p] == psc &&
        !rec->set->stop) { /* psc is in use: neither an old nor a future client */
        bool is_new = !rec->set->states[p].lost;
        if (is_new || rec->servers[p].is_set_back) {
            coxi_event(c, COX_EVENT_PS_LOST,
                       COXI_OF(.ps = coxi_maybe_of(p), .error = COX_EPSLOST),
                       "ps %u at %.150s is lost: %.250s; it has %d ms to come back", p,
                       coxi_psc_address(psc), text, c->options.ps_recovery_ms);
        }
        begin_absence(rec, p);
        rec->servers[p].is_set_back = false;
        if (is_new && atomic_load(&rec->set->sets_all_back)) {
            set_others_back(rec, p);
        }
        rec->since_ms = rec->since_ms != 0 ? rec->since_ms : coxi_now_ms();
        atomic_store(&rec->set->any_lost, true);
        rec->set->n_losses++;
        atomic_store(&rec->set->under_way, true);
        (void)pthread_cond_broadcast(&rec->set->changed);
    }
    coxi_unlock(&rec->set->lock);
    return true;
}

/* ---- asking the loop */

struct errand {
    struct coxi_recovery *rec;
    int (*run)(struct coxi_recovery *rec, void *arg);
    void *arg;
};

static int run_errand(struct cox_coordinator *c, void *arg)
{
    const struct errand *errand = arg;
    (void)c;
    return errand->run(errand->rec, errand->arg);
}

int coxi_recovery_on_loop(struct coxi_recovery *rec,
                          int (*run)(struct coxi_recovery *rec, void *arg), void *arg)
{
    struct errand errand = {rec, run, arg};
    return coxi_call_on_loop(rec->c, run_errand, &errand);
}

bool coxi_recovery_stopping(struct coxi_recovery *rec)
{
    coxi_lock(&rec->set->lock);
    bool stop = rec->set->stop;
    coxi_unlock(&rec->set->lock);
    return stop || coxi_check_alive(rec->c) != 0;
}

void coxi_recovery_wait_slice(struct coxi_recovery *rec)
{
    coxi_lock(&rec->set->lock);
    struct timespec until = coxi_deadline(COXI_RECOVERY_SLICE_MS);
    (void)coxi_wait_until(&rec->set->changed, &rec->set->lock, &until);
    coxi_unlock(&rec->set->lock);
}

/* ---- a recovery */

/* On the loop: no ps will be recovered any more. */
static int be_over(struct coxi_recovery *rec, void *arg)
{
    (void)arg;
    rec->set->over = true;
    rec->set->batch_open = false;
    coxi_recovery_let_go_held(rec);
    return 0;
}

static void say_recovered(struct coxi_recovery *rec, uint64_t since_ms)
{
    uint64_t ms = coxi_now_ms() - since_ms;
    coxi_event(rec->c, COX_EVENT_RECOVERED, COXI_OF(.seconds = ms / 1000),
               "every ps is restored, after %llu ms; %zu closure%s replayed for that",
               (unsigned long long)ms, rec->n_redone,
               rec->n_redone == 1 ? " was" : "s were");
    rec->n_redone = 0;
}

/* On the loop: all ps are UP, unless another one was lost. */
static int go_on(struct coxi_recovery *rec, void *arg)
{
    struct cox_coordinator *c = rec->c;
    bool *ret_up = arg;
    coxi_lock(&rec->set->lock);
    bool up = !coxi_ps_any_lost(rec->c, false);
    for (uint32_t p = 0; up && p < c->ps.n; p++) {
        rec->set->states[p].owed = false;
        coxi_applied_list_fini(&rec->servers[p].restored);
    }
    uint64_t since_ms = rec->since_ms;
    if (up) {
        rec->since_ms = 0;
        atomic_store(&rec->set->under_way, false);
        (void)pthread_cond_broadcast(&rec->set->changed);
    }
    coxi_unlock(&rec->set->lock);
    rec->set->batch_open = false;
    if (up) {
        coxi_recovery_let_go_held(rec);
        say_recovered(rec, since_ms);
        coxi_lock(&c->lock);
        c->resources->changed = true; /* make the resources that had to wait */
        /* threads that join wait for this, too */
        (void)pthread_cond_broadcast(&c->life.idle);
        coxi_unlock(&c->lock);
    }
    *ret_up = up;
    return 0;
}

/* Memory that is missing now may be there in a moment: true if there is still time for
 * another try, before which this waits a little. */
static bool awaits_memory(struct coxi_recovery *rec, int code)
{
    if (code != COX_ENOMEM) {
        return false;
    }
    coxi_call_why(rec->c, "%.380s", coxi_error_text());
    coxi_lock(&rec->set->lock);
    uint64_t lasts_ms = coxi_now_ms() - rec->since_ms;
    coxi_unlock(&rec->set->lock);
    if (lasts_ms >= (uint64_t)rec->c->options.ps_recovery_ms) {
        return false;
    }
    coxi_recovery_wait_slice(rec);
    return true;
}

/* One pass: brings back all ps that are lost, and replays what they lack. */
static int recover_once(struct coxi_recovery *rec, bool *ret_up)
{
    if (atomic_load(&rec->set->any_lost)) {
        coxi_call_why(rec->c, "ps are away, or being restored");
        return coxi_recovery_bring_back(rec);
    }
    int r = coxi_recovery_replay(rec);
    return r == 0 ? coxi_recovery_on_loop(rec, go_on, ret_up) : r;
}

/* Runs a recovery to its end. COX_ECLOSED: the run is over. */
static int recover(struct coxi_recovery *rec)
{
    bool up = false;
    int r = 0;
    struct coxi_call wait __attribute__((cleanup(coxi_call_end)));
    coxi_wait_begin(rec->c, &wait, "the recovery", coxi_maybe_none());
    while (r == 0 && !up && !coxi_recovery_stopping(rec)) {
        r = recover_once(rec, &up);
        r = r == COX_EAGAIN || awaits_memory(rec, r) ? 0 : r;
    }
    /* without a text, because the reason was reported */
    return r == 0 && !up ? COX_ECLOSED : r;
}

static void *recovery_thread(void *arg)
{
    struct coxi_recovery *rec = arg;
    coxi_disk_give_up_when(&rec->c->saving.leaves_disk);
    coxi_lock(&rec->set->lock);
    while (!rec->set->stop) {
        if (!coxi_ps_any_lost(rec->c, true)) {
            coxi_wait_for_work(&rec->set->changed, &rec->set->lock);
            continue;
        }
        coxi_unlock(&rec->set->lock);
        int r = recover(rec);
        if (r != 0 && !coxi_recovery_stopping(rec)) {
            coxi_fatal(rec->c, r == COX_EREPLAY ? r : COX_EPSLOST, coxi_error_text());
        }
        coxi_lock(&rec->set->lock);
        if (r != 0) {
            rec->set->stop = true; /* the run is over */
        }
    }
    coxi_unlock(&rec->set->lock);
    (void)coxi_recovery_on_loop(rec, be_over, NULL);
    coxi_lock(&rec->set->lock);
    rec->ended = true;
    (void)pthread_cond_broadcast(&rec->set->changed);
    coxi_unlock(&rec->set->lock);
    return NULL;
}

int cox_ps_address(struct cox_coordinator *c, uint32_t ps, const char *address)
{
    if (c == NULL || address == NULL || ps >= c->ps.n) {
        return coxi_error(COX_EINVAL,
                          "cox_ps_address needs one of the cluster's ps, and "
                          "an address");
    }
    if (c->ps.recovery == NULL) {
        return coxi_error(
            COX_EINVAL,
            "without checkpoint_dir a lost ps cannot come back at any address");
    }
    char before[1];
    return coxi_recovery_move(c, ps, address, before, sizeof(before));
}

int coxi_recovery_move(struct cox_coordinator *c, uint32_t ps, const char *address,
                       char *ret_before, size_t before_max)
{
    char *url;
    int r = coxi_cluster_url(address, &url);
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->ps.lock);
    struct coxi_recovery *rec = c->ps.recovery;
    (void)snprintf(ret_before, before_max, "%s", c->site.cluster->ps[ps]);
    free(c->site.cluster->ps[ps]);
    c->site.cluster->ps[ps] = url;
    if (rec != NULL) {
        rec->n_moves++;
        (void)pthread_cond_broadcast(&rec->set->changed);
    }
    coxi_unlock(&c->ps.lock);
    return 0;
}

/* ---- for the loop */

void coxi_recovery_tick(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->ps.recovery;
    uint64_t now = coxi_now_ms();
    bool alive = coxi_check_alive(c) == 0;
    if (rec == NULL || !atomic_load(&rec->set->any_lost)) {
        return;
    }
    coxi_lock(&rec->set->lock);
    for (uint32_t p = 0; p < c->ps.n; p++) {
        const struct coxi_recovery_server *server = &rec->servers[p];
        if (server->returning == NULL) {
            continue;
        }
        coxi_psc_tick(server->returning);
        if (!alive || rec->set->stop || now >= server->end_ms) {
            coxi_psc_give_up(server->returning, alive ? "it took too long to come back"
                                                      : "nobody waits for it any more");
        }
    }
    coxi_unlock(&rec->set->lock);
}

bool coxi_recovery_is_due(const struct cox_coordinator *c)
{
    return c->ps.recovery != NULL && c->life.fatal == 0 &&
           (coxi_replay_log_is_due(c->replay_log, c->ids.next) ||
            coxi_resources_are_due(c));
}

/* ---- checkpoints */

int coxi_recovery_mark(struct cox_coordinator *c, struct coxi_recovery_mark *ret)
{
    struct coxi_recovery *rec = c->ps.recovery;
    *ret = (struct coxi_recovery_mark){0};
    bool up = rec == NULL;
    int r = coxi_ps_wait(c);
    while (r == 0 && !up) {
        coxi_lock(&rec->set->lock);
        up = !coxi_ps_any_lost(rec->c, true); /* and no ps was lost since the wait */
        ret->n_losses = rec->set->n_losses;
        coxi_unlock(&rec->set->lock);
        if (up) {
            ret->log = coxi_replay_log_mark(c->replay_log);
        } else {
            r = coxi_ps_wait(c);
        }
    }
    return r;
}

int coxi_recovery_base(struct cox_coordinator *c, const char *path,
                       struct coxi_manifest_shard *shards,
                       const struct coxi_recovery_mark *mark)
{
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL) {
        return 0;
    }
    struct coxi_recovery_base base = {.path = strdup(path),
                                      .shards = calloc(c->ps.n, sizeof(*base.shards))};
    int r = base.path == NULL || base.shards == NULL ? coxi_error_memory("a checkpoint")
                                                     : coxi_hold_take(path, &base.hold);
    coxi_lock(&rec->set->lock);
    bool whole = r == 0 && rec->set->n_losses == mark->n_losses;
    if (whole) {
        memcpy(base.shards, shards, c->ps.n * sizeof(*shards));
        memset(shards, 0, c->ps.n * sizeof(*shards));
        struct coxi_recovery_base old = rec->base;
        rec->base = base;
        base = old;
    }
    coxi_unlock(&rec->set->lock);
    if (whole) {
        coxi_replay_log_forget(c->replay_log, mark->log);
    }
    base_fini(&base, c->ps.n);
    return r;
}

/* ---- life */

int coxi_recovery_start(struct cox_coordinator *c, const struct coxi_replay_refs *refs)
{
    static const struct coxi_closure_events events = {
        .replayed = coxi_recovery_replayed,
        .void_later = coxi_recovery_void_later,
    };
    if (c->saving.dir == NULL) {
        return 0;
    }
    struct coxi_replay_log *log = NULL;
    struct coxi_recovery *rec = calloc(1, sizeof(*rec));
    struct coxi_recovery_server *servers = calloc(c->ps.n, sizeof(*servers));
    int r = rec == NULL || servers == NULL
                ? coxi_error_memory("recovery")
                : coxi_replay_log_new(c->ps.n, c->options.replay_log_bytes, refs, &log);
    if (r != 0) {
        free(rec);
        free(servers);
        return r;
    }
    rec->c = c;
    rec->set = &c->ps;
    rec->servers = servers;
    /* Everything exists: the loop is running and uses it from now on. */
    atomic_store(&c->replay_log, log);
    atomic_store(&c->ps.recovery, rec);
    atomic_store(&c->closures->events, &events);
    atomic_store(&c->ps.recovers, true);
    r = coxi_thread_start(&rec->thread, "cox:recovery", recovery_thread, rec);
    rec->runs = r == 0;
    return r;
}

bool coxi_recovery_end(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL || !rec->runs) {
        return true;
    }
    coxi_lock(&rec->set->lock);
    rec->set->stop = true;
    (void)pthread_cond_broadcast(&rec->set->changed);
    while (!rec->ended && coxi_wait_until(&rec->set->changed, &rec->set->lock, until)) {
    }
    bool ended = rec->ended;
    coxi_unlock(&rec->set->lock);
    return ended;
}

void coxi_recovery_stop(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL) {
        return;
    }
    struct timespec now = coxi_deadline(0);
    (void)coxi_recovery_end(c, &now);
    if (rec->runs) {
        (void)pthread_join(rec->thread, NULL);
        rec->runs = false;
    }
}

void coxi_recovery_free(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL) {
        return;
    }
    coxi_recovery_stop(c);
    for (size_t i = 0; i < rec->n_past; i++) {
        coxi_psc_close(rec->past[i]);
    }
    for (uint32_t p = 0; p < c->ps.n; p++) {
        coxi_applied_list_fini(&rec->servers[p].restored);
    }
    /* No thread finds the recovery or its log from here on. */
    struct coxi_replay_log *log = c->replay_log;
    atomic_store(&c->ps.recovers, false);
    atomic_store(&c->ps.under_way, false);
    atomic_store(&c->closures->events, NULL);
    atomic_store(&c->ps.recovery, NULL);
    atomic_store(&c->replay_log, NULL);
    base_fini(&rec->base, c->ps.n);
    free(rec->past);
    free(rec->servers);
    coxi_replay_log_free(log);
    free(rec);
}
