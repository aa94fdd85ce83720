/*
 * See recovery.h. A thread of its own does what waits: connecting, restoring, replaying.
 * What concerns closures it asks the loop to do, by mail, and waits for that.
 *
 * A pass brings back every ps that is lost, all at once, then replays, by rising id, what any of those
 * that are owed something misses: calls together, up to the next operation of the
 * client's, which waits for them. A loss in the middle begins another pass; what has been
 * replayed before is done again then and counts once all the same, as everything does.
 *
 * Invariants
 *   - a replay is a closure of its own with the id of one that is settled, and in no
 *     user's hands; it is in `replays` until it has ended
 *   - a replay is dispatched only to ps that have all that came before it: where another ps
 *     is lost in the middle, what has not ended is abandoned, and begun anew in its place
 *   - no ps is told a watermark beyond what it is owed
 *
 * Threads: its own; one for each ps that is away; the loop; users' where recovery.h says so. Locks: `lock` comes after
 * c->lock and before the log's.
 */
#include "coordinator/recovery/recovery_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/resource.h"

static void base_fini(struct coxi_recovery_base *base, uint32_t n_ps)
{
    for (uint32_t p = 0; base->shards != NULL && p < n_ps; p++) {
        coxi_applied_list_fini(&base->shards[p].applied);
    }
    free(base->shards);
    free(base->path);
    if (base->lock >= 0) {
        (void)close(base->lock);
    }
}

bool coxi_recovery_is_on(const struct cox_coordinator *c)
{
    return c->recovery != NULL;
}

bool coxi_recovery_again(struct cox_coordinator *c, int code)
{
    return code == COX_EPSLOST && coxi_recovery_is_on(c) && coxi_recovery_wait(c) == 0;
}

/* ---- the state of the ps */

/* Locked. */
bool coxi_recovery_any(const struct coxi_recovery *rec, bool owed)
{
    for (uint32_t p = 0; p < rec->c->n_ps; p++) {
        if (rec->servers[p].lost || (owed && rec->servers[p].owed)) {
            return true;
        }
    }
    return false;
}

/*
 * A ps has ps_recovery_ms from its loss. One that goes again soon, before it has been given
 * all of its own, gets no new time: what is replayed may be what kills it. Locked.
 */
static void begin_absence(struct coxi_recovery *rec, uint32_t p)
{
    struct coxi_recovery_server *server = &rec->servers[p];
    uint64_t now = coxi_now_ms();
    uint64_t time_ms = (uint64_t)rec->c->options.ps_recovery_ms;
    if (!server->lost && (!server->owed || now - server->back_ms > time_ms)) {
        server->end_ms = now + time_ms;
    }
    server->lost = true;
}

bool coxi_recovery_lost(struct cox_coordinator *c, const struct coxi_psc *psc,
                        const char *text)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return false;
    }
    coxi_lock(&rec->lock);
    uint32_t p = coxi_psc_index(psc);
    if (c->ps[p] == psc &&
        !rec->stop) { /* not one that is not in use, yet or any more */
        if (!rec->servers[p].lost) {
            coxi_event(c, COX_EVENT_PS_LOST, COXI_OF(.ps = 1 + p, .error = COX_EPSLOST),
                       "ps %u at %.150s is lost: %.250s; it has %d ms to come back", p,
                       coxi_psc_address(psc), text, c->options.ps_recovery_ms);
        }
        begin_absence(rec, p);
        rec->since_ms = rec->since_ms != 0 ? rec->since_ms : coxi_now_ms();
        atomic_store(&rec->any_lost, true);
        rec->n_losses++;
        atomic_store(&rec->under_way, true);
        (void)pthread_cond_broadcast(&rec->changed);
    }
    coxi_unlock(&rec->lock);
    return true;
}

uint64_t coxi_recovery_losses(const struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return 0;
    }
    coxi_lock(&rec->lock);
    uint64_t n = rec->n_losses;
    coxi_unlock(&rec->lock);
    return n;
}

int coxi_recovery_wait(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->recovery;
    int r = coxi_check_alive(c);
    if (rec == NULL) {
        return r;
    }
    coxi_lock(&rec->lock);
    while (r == 0 && coxi_recovery_any(rec, true) && !rec->stop) {
        struct timespec until = coxi_deadline(COXI_RECOVERY_SLICE_MS);
        (void)pthread_cond_timedwait(&rec->changed, &rec->lock, &until);
        coxi_unlock(&rec->lock);
        r = coxi_check_alive(c); /* it may have been given up */
        coxi_lock(&rec->lock);
    }
    coxi_unlock(&rec->lock);
    return r;
}

void coxi_recovery_incarnations(struct cox_coordinator *c, uint64_t *ret)
{
    for (uint32_t p = 0; p < c->n_ps; p++) {
        ret[p] = coxi_psc_incarnation(c->ps[p]);
    }
}

int coxi_recovery_moment(struct cox_coordinator *c, uint64_t *ret_incarnations)
{
    uint64_t n_losses;
    int r;
    do {
        n_losses = coxi_recovery_losses(c);
        r = coxi_recovery_wait(c);
        coxi_recovery_incarnations(c, ret_incarnations);
    } while (r == 0 && coxi_recovery_losses(c) != n_losses);
    return r;
}

bool coxi_recovery_is_under_way(const struct cox_coordinator *c)
{
    return c->recovery != NULL && atomic_load(&c->recovery->under_way);
}

uint64_t coxi_recovery_watermark(const struct cox_coordinator *c, uint32_t ps,
                                 uint64_t watermark)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return watermark;
    }
    coxi_lock(&rec->lock);
    const struct coxi_recovery_server *server = &rec->servers[ps];
    uint64_t most = server->lost || server->owed ? server->watermark : watermark;
    coxi_unlock(&rec->lock);
    return most < watermark ? most : watermark;
}

/* ---- asking the loop */

struct errand {
    struct coxi_mail mail; /* first */
    struct coxi_recovery *rec;
    void (*run)(struct coxi_recovery *rec, void *arg);
    void *arg;
    bool done; /* guarded by rec->lock */
};

static void run_errand(struct coxi_mail *mail)
{
    struct errand *errand = (struct errand *)mail;
    struct coxi_recovery *rec = errand->rec;
    errand->run(rec, errand->arg);
    coxi_loop_wake_after_mail(rec->c->loop);
    coxi_lock(&rec->lock);
    errand->done = true;
    (void)pthread_cond_broadcast(&rec->changed);
    coxi_unlock(&rec->lock);
}

/* Has `run` called on the loop and waits until it has been. */
void coxi_recovery_on_loop(struct coxi_recovery *rec,
                           void (*run)(struct coxi_recovery *rec, void *arg), void *arg)
{
    struct errand errand = {.mail.run = run_errand, .rec = rec, .run = run, .arg = arg};
    coxi_loop_post(rec->c->loop, &errand.mail);
    coxi_lock(&rec->lock);
    while (!errand.done) {
        (void)pthread_cond_wait(&rec->changed, &rec->lock);
    }
    coxi_unlock(&rec->lock);
}
bool coxi_recovery_stopping(struct coxi_recovery *rec)
{
    coxi_lock(&rec->lock);
    bool stop = rec->stop;
    coxi_unlock(&rec->lock);
    return stop || coxi_check_alive(rec->c) != 0;
}

/* ---- a recovery */

/* On the loop: nothing is recovered any more. */
static void be_over(struct coxi_recovery *rec, void *arg)
{
    (void)arg;
    rec->over = true;
    rec->batch_open = false;
    coxi_recovery_let_go_held(rec);
}

static void say_recovered(struct coxi_recovery *rec, uint64_t since_ms)
{
    uint64_t ms = coxi_now_ms() - since_ms;
    coxi_event(
        rec->c, COX_EVENT_RECOVERED, COXI_OF(.seconds = ms / 1000),
        "every ps has all of its own again, after %llu ms; %zu closures were done "
        "again for that",
        (unsigned long long)ms, rec->n_redone);
    rec->n_redone = 0;
}

/* On the loop: unless another has been lost, all are UP. */
static void go_on(struct coxi_recovery *rec, void *arg)
{
    struct cox_coordinator *c = rec->c;
    bool *ret_up = arg;
    coxi_lock(&rec->lock);
    bool up = !coxi_recovery_any(rec, false);
    for (uint32_t p = 0; up && p < c->n_ps; p++) {
        rec->servers[p].owed = false;
        coxi_applied_list_fini(&rec->servers[p].restored);
    }
    uint64_t since_ms = rec->since_ms;
    if (up) {
        rec->since_ms = 0;
        atomic_store(&rec->under_way, false);
        (void)pthread_cond_broadcast(&rec->changed);
    }
    coxi_unlock(&rec->lock);
    rec->batch_open = false;
    if (up) {
        coxi_recovery_let_go_held(rec);
        say_recovered(rec, since_ms);
        coxi_lock(&c->lock);
        c->resources_changed = true;            /* those that had to wait */
        (void)pthread_cond_broadcast(&c->idle); /* who joins waits for this, too */
        coxi_unlock(&c->lock);
    }
    *ret_up = up;
}

/* COX_ECLOSED: the run is over. */
static int recover(struct coxi_recovery *rec)
{
    bool up = false;
    int r = 0;
    struct coxi_call wait __attribute__((cleanup(coxi_call_end)));
    coxi_wait_begin(rec->c, &wait, "the recovery", 0);
    while (r == 0 && !up && !coxi_recovery_stopping(rec)) {
        if (atomic_load(&rec->any_lost)) {
            coxi_call_why(rec->c, "ps are away, or being restored");
            r = coxi_recovery_bring_back(rec);
            continue;
        }
        r = coxi_recovery_replay(rec);
        if (r == 0) {
            coxi_recovery_on_loop(rec, go_on, &up);
        }
        r = r == COX_EAGAIN ? 0 : r;
    }
    return r == 0 && !up ? COX_ECLOSED : r; /* without a text: it has been told why */
}

static void *recovery_thread(void *arg)
{
    struct coxi_recovery *rec = arg;
    coxi_lock(&rec->lock);
    while (!rec->stop) {
        if (!coxi_recovery_any(rec, true)) {
            (void)pthread_cond_wait(&rec->changed, &rec->lock);
            continue;
        }
        coxi_unlock(&rec->lock);
        int r = recover(rec);
        if (r != 0 && !coxi_recovery_stopping(rec)) {
            coxi_fatal(rec->c, r == COX_EREPLAY ? r : COX_EPSLOST, coxi_error_text());
        }
        coxi_lock(&rec->lock);
        if (r != 0) {
            rec->stop = true; /* the run is over */
        }
    }
    coxi_unlock(&rec->lock);
    coxi_recovery_on_loop(rec, be_over, NULL);
    coxi_lock(&rec->lock);
    rec->ended = true;
    (void)pthread_cond_broadcast(&rec->changed);
    coxi_unlock(&rec->lock);
    return NULL;
}

char *coxi_recovery_address(struct cox_coordinator *c, uint32_t ps)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return strdup(c->cluster->ps[ps]); /* which nobody changes then */
    }
    coxi_lock(&rec->lock);
    char *address = strdup(c->cluster->ps[ps]);
    coxi_unlock(&rec->lock);
    return address;
}

int cox_ps_address(struct cox_coordinator *c, uint32_t ps, const char *address)
{
    if (c == NULL || address == NULL || ps >= c->n_ps) {
        return coxi_error(COX_EINVAL,
                          "cox_ps_address needs one of the cluster's ps, and "
                          "an address");
    }
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return coxi_error(COX_EINVAL,
                          "without checkpoint_dir no ps comes back, wherever");
    }
    char *url;
    int r = coxi_cluster_url(address, &url);
    if (r != 0) {
        return r;
    }
    coxi_lock(&rec->lock);
    free(c->cluster->ps[ps]);
    c->cluster->ps[ps] = url;
    rec->n_moves++;
    (void)pthread_cond_broadcast(&rec->changed);
    coxi_unlock(&rec->lock);
    return 0;
}

/* ---- the loop's */

bool coxi_recovery_is_replaying(const struct cox_coordinator *c)
{
    const struct coxi_recovery *rec = c->recovery;
    return rec != NULL && rec->batch_open && !atomic_load(&rec->any_lost);
}

uint64_t coxi_recovery_reached(const struct cox_coordinator *c)
{
    return !coxi_recovery_is_under_way(c)  ? UINT64_MAX
           : coxi_recovery_is_replaying(c) ? c->recovery->reached
                                           : 0;
}

void coxi_recovery_tick(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->recovery;
    uint64_t now = coxi_now_ms();
    bool alive = coxi_check_alive(c) == 0;
    if (rec == NULL || !atomic_load(&rec->any_lost)) {
        return;
    }
    coxi_lock(&rec->lock);
    for (uint32_t p = 0; p < c->n_ps; p++) {
        const struct coxi_recovery_server *server = &rec->servers[p];
        if (server->returning == NULL) {
            continue;
        }
        coxi_psc_tick(server->returning);
        if (!alive || rec->stop || now >= server->end_ms) {
            coxi_psc_give_up(server->returning, alive ? "it took too long to come back"
                                                      : "nobody waits for it any more");
        }
    }
    coxi_unlock(&rec->lock);
}

struct cox_future *coxi_recovery_find(struct cox_coordinator *c, uint64_t id)
{
    struct cox_future *f = coxi_window_get(&c->closures, id);
    return f != NULL || c->recovery == NULL
               ? f
               : coxi_window_get(&c->recovery->replays, id);
}

uint64_t coxi_recovery_epoch(const struct cox_coordinator *c)
{
    return c->recovery != NULL ? c->recovery->epoch : 0;
}

bool coxi_recovery_is_stale(const struct cox_future *f, const uint32_t *touched,
                            size_t n_touched)
{
    const struct coxi_recovery *rec = f->c->recovery;
    if (rec == NULL || f->epoch == rec->epoch) {
        return false;
    }
    for (size_t i = 0; i < n_touched; i++) {
        if (touched[i] < f->c->n_ps && rec->servers[touched[i]].epoch > f->epoch) {
            return true;
        }
    }
    return false;
}

/* An error has cancelled it, and the program may not have learned of that yet. */
static void note_cancelled(struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    coxi_lock(&c->lock);
    bool by_error = c->reporting;
    coxi_unlock(&c->lock);
    if (by_error && f->cursor != 0 &&
        (c->first_cancelled == 0 || f->id < c->first_cancelled)) {
        c->first_cancelled = f->id;
    }
}

void coxi_recovery_settled(struct cox_future *f, const uint32_t *touched,
                           size_t n_touched)
{
    struct cox_coordinator *c = f->c;
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return;
    }
    int r = 0;
    if (f->id > c->progress.closure) {
        c->progress.closure = f->id;
    }
    if (f->state != COXI_CANCELLED || f->applied) {
        coxi_recovery_covers(&c->progress, f->id, f->cursor);
    } else {
        note_cancelled(f);
    }
    if (f->state == COXI_DONE_OK || f->applied) {
        r = coxi_closure_log(rec->log, f, touched, n_touched);
    } else if (f->attempt > 0) {
        r = coxi_replay_log_barred(rec->log, f->id);
    }
    if (r != 0) {
        coxi_fatal(c, r, coxi_error_text());
    }
}

bool coxi_recovery_is_due(const struct cox_coordinator *c)
{
    return c->recovery != NULL && c->fatal == 0 &&
           (coxi_replay_log_is_due(c->recovery->log, c->next_id) ||
            coxi_resources_are_due(c));
}

uint64_t coxi_recovery_oldest(const struct cox_coordinator *c)
{
    return c->recovery != NULL ? coxi_replay_log_oldest_call(c->recovery->log)
                               : UINT64_MAX;
}

bool coxi_recovery_is_full(const struct cox_coordinator *c)
{
    return c->recovery != NULL && coxi_replay_log_is_full(c->recovery->log, c->next_id);
}

/* ---- what the client itself does */

int coxi_recovery_operation(struct cox_coordinator *c,
                            const struct coxi_replay_entry *operation)
{
    return c->recovery != NULL ? coxi_replay_log_operation(c->recovery->log, operation)
                               : 0;
}

void coxi_recovery_operation_set(struct cox_coordinator *c, uint64_t id,
                                 enum coxi_replay_state state)
{
    if (c->recovery != NULL) {
        coxi_replay_log_set(c->recovery->log, id, state);
    }
}

void coxi_recovery_operation_hold(struct cox_coordinator *c, uint64_t id,
                                  uint64_t begin)
{
    if (c->recovery != NULL) {
        coxi_replay_log_hold(c->recovery->log, id, begin);
    }
}

void coxi_recovery_retracted(struct cox_coordinator *c, uint64_t id)
{
    if (c->recovery != NULL) {
        coxi_replay_log_retract(c->recovery->log, id);
    }
}

/* A ps that is known to be lost after this is given back, by the replay, what is logged
 * here. */
bool coxi_recovery_written(struct cox_coordinator *c,
                           const struct coxi_recovery_written *written)
{
    struct coxi_recovery *rec = c->recovery;
    int r = 0;
    if (rec == NULL) {
        return true;
    }
    coxi_lock(&rec->lock);
    bool known = rec->n_losses == written->n_losses;
    if (known) {
        r = coxi_replay_log_narrow(rec->log, written->id, written->begin,
                                   written->ranges, written->n);
    }
    coxi_unlock(&rec->lock);
    if (r != 0) {
        coxi_fatal(c, r, coxi_error_text());
    }
    return known;
}

/* ---- checkpoints */

int coxi_recovery_mark(struct cox_coordinator *c, struct coxi_recovery_mark *ret)
{
    struct coxi_recovery *rec = c->recovery;
    *ret = (struct coxi_recovery_mark){0};
    bool up = rec == NULL;
    int r = coxi_recovery_wait(c);
    while (r == 0 && !up) {
        coxi_lock(&rec->lock);
        up = !coxi_recovery_any(rec, true); /* and not since it was waited for */
        ret->n_losses = rec->n_losses;
        coxi_unlock(&rec->lock);
        if (up) {
            ret->log = coxi_replay_log_mark(rec->log);
        } else {
            r = coxi_recovery_wait(c);
        }
    }
    return r;
}

int coxi_recovery_base(struct cox_coordinator *c, const char *path,
                       struct coxi_manifest_shard *shards,
                       const struct coxi_recovery_mark *mark)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return 0;
    }
    struct coxi_recovery_base base = {.path = strdup(path),
                                      .shards = calloc(c->n_ps, sizeof(*base.shards)),
                                      .lock = -1};
    int r = base.path == NULL || base.shards == NULL
                ? coxi_error_memory("a checkpoint")
                : coxi_checkpoint_hold(path, &base.lock);
    coxi_lock(&rec->lock);
    bool whole = r == 0 && rec->n_losses == mark->n_losses;
    if (whole) {
        memcpy(base.shards, shards, c->n_ps * sizeof(*shards));
        memset(shards, 0, c->n_ps * sizeof(*shards));
        struct coxi_recovery_base old = rec->base;
        rec->base = base;
        base = old;
    }
    coxi_unlock(&rec->lock);
    if (whole) {
        coxi_replay_log_forget(rec->log, mark->log);
    }
    base_fini(&base, c->n_ps);
    return r;
}

/* ---- life */

int coxi_recovery_start(struct cox_coordinator *c, const struct coxi_replay_refs *refs)
{
    if (c->checkpoint_dir == NULL) {
        return 0;
    }
    struct coxi_recovery *rec = calloc(1, sizeof(*rec));
    struct coxi_recovery_server *servers = calloc(c->n_ps, sizeof(*servers));
    int r = rec == NULL || servers == NULL
                ? coxi_error_memory("recovery")
                : coxi_replay_log_new(c->n_ps, c->options.replay_log_bytes, refs,
                                      &rec->log);
    if (r != 0) {
        free(rec);
        free(servers);
        return r;
    }
    rec->c = c;
    rec->servers = servers;
    rec->base.lock = -1;
    (void)pthread_mutex_init(&rec->lock, NULL);
    coxi_cond_init(&rec->changed);
    coxi_window_init(&rec->replays, 1, COXI_WINDOW);
    atomic_store(&c->recovery,
                 rec); /* whole: the loop runs, and looks at it from now on */
    r = coxi_thread_start(&rec->thread, "cox:recovery", recovery_thread, rec);
    rec->runs = r == 0;
    return r;
}

bool coxi_recovery_end(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL || !rec->runs) {
        return true;
    }
    int r = 0;
    coxi_lock(&rec->lock);
    rec->stop = true;
    (void)pthread_cond_broadcast(&rec->changed);
    while (!rec->ended && r == 0) {
        r = pthread_cond_timedwait(&rec->changed, &rec->lock, until);
    }
    bool ended = rec->ended;
    coxi_unlock(&rec->lock);
    return ended;
}

void coxi_recovery_stop(struct cox_coordinator *c)
{
    struct coxi_recovery *rec = c->recovery;
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
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL) {
        return;
    }
    coxi_recovery_stop(c);
    for (size_t i = 0; i < rec->n_past; i++) {
        coxi_psc_close(rec->past[i]);
    }
    for (uint32_t p = 0; p < c->n_ps; p++) {
        coxi_applied_list_fini(&rec->servers[p].restored);
    }
    base_fini(&rec->base, c->n_ps);
    free(rec->past);
    free(rec->servers);
    coxi_replay_log_free(rec->log);
    coxi_window_fini(&rec->replays);
    (void)pthread_cond_destroy(&rec->changed);
    (void)pthread_mutex_destroy(&rec->lock);
    free(rec);
    c->recovery = NULL;
}
