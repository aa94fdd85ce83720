/* The life of a coordinator: cox_open connects to everything and begins a run,
 * cox_close ends it in the opposite order. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "cluster/local.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_claim.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/checkpoints/resume.h"
#include "coordinator/checkpoints/save.h"
#include "coordinator/checkpoints/trigger.h"
#include "coordinator/closures/callback.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/crew.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/stragglers.h"
#include "coordinator/closures/watch.h"
#include "coordinator/datasets/dataset.h"
#include "coordinator/discovery.h"
#include "coordinator/monitor/exposed.h"
#include "coordinator/monitor/monitor.h"
#include "coordinator/monitor/stats.h"
#include "coordinator/monitor/trace.h"
#include "coordinator/opening.h"
#include "coordinator/options.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/load.h"
#include "coordinator/variables/registry.h"
#include "coordinator/workers/door.h"
#include "coordinator/workers/layout.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/reach.h"
#include "coordinator/workers/resource.h"
#include "coordinator/workers/worker.h"
#include "net/ps_client.h"

enum { RELEASE_MS = 1000 };

/* ---- the loop's tick */

/* True if the local cluster has ended for good. Then the run's error is the launcher's
 * reason, not the first ps that is missed. `check` asks for the reason. */
static bool has_cluster_ended(struct cox_coordinator *c,
                              int (*check)(struct coxi_local *local))
{
    bool ended =
        c->site.local != NULL && atomic_load(&c->ps.ready) && check(c->site.local) != 0;
    if (ended) {
        coxi_fatal(c, COX_EPSLOST, coxi_error_text());
    }
    return ended;
}

static void on_tick(void *arg)
{
    struct cox_coordinator *c = arg;
    (void)has_cluster_ended(c, coxi_local_check);
    coxi_links_tick(c->site.links);
    for (uint32_t i = 0; i < c->ps.n; i++) {
        coxi_psc_tick(c->ps.clients[i]);
    }
    coxi_recovery_tick(c);
    coxi_workers_tick(c);
    coxi_watch_tick(c);
    coxi_stragglers_tick(c);
    coxi_resources_tick(c);
    coxi_trigger_tick(c);
    coxi_layout_update(c);
    coxi_calls_tick(c, coxi_now_ms());
    coxi_tracing_tick(c);
    coxi_dispatch(c);
}

/* ---- connecting */

static void on_ps_lost(void *arg, struct coxi_psc *psc, const char *text)
{
    struct cox_coordinator *c = arg;
    char full[COXI_TEXT_MAX];
    if (coxi_psc_wait(psc, 0) == COX_EFENCED) {
        coxi_fatal(c, COX_EFENCED, coxi_error_text());
        return;
    }
    if (has_cluster_ended(c, coxi_local_check_lost) ||
        coxi_recovery_lost(c, psc, text)) {
        return;
    }
    (void)snprintf(full, sizeof(full), "ps %u at %s is lost: %.300s",
                   coxi_psc_index(psc), coxi_psc_address(psc), text);
    coxi_fatal(c, COX_EPSLOST, full);
}

static int open_ps(struct cox_coordinator *c)
{
    const uint32_t n = c->site.cluster->n_ps;
    int r = coxi_ps_set_reserve(&c->ps, n);
    c->registry->ps_load = calloc(n, sizeof(*c->registry->ps_load));
    if (r == 0 && c->registry->ps_load == NULL) {
        r = coxi_error_memory("connections to ps");
    }
    if (r == 0) {
        r = coxi_stats_new(c);
    }
    if (r == 0) {
        r = coxi_tracing_new(c);
    }
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        struct coxi_psc *psc;
        r = coxi_ps_connect(c, i, &psc);
        if (r == 0) {
            c->ps.clients[i] = psc;
            c->ps.n = i + 1;
        }
    }
    return r;
}

/* ---- opening */

static void coordinator_init(struct cox_coordinator *c)
{
    atomic_init(&c->refs, 1);
    coxi_ps_set_init(&c->ps);
    c->ps.on_lost = on_ps_lost;
    c->session = (struct coxi_session){coxi_random_id(), 1, coxi_random_id()};
    coxi_mutex_init(&c->lock);
    coxi_task_stream_init(&c->task_stream);
    coxi_unshared(&c->lock);
    c->ids.next = 1;
    c->ids.first_unsettled = 1;
    coxi_mutex_init(&c->saving.lock);
    coxi_cond_init(&c->life.room);
    coxi_cond_init(&c->life.idle);
    coxi_cond_init(&c->life.changed);
}

static int open_door(struct cox_coordinator *c)
{
    int r = coxi_door_new(c, c->options.listen, &c->workers->door);
    if (r == 0 && c->workers->n == 0) {
        (void)snprintf(c->workers->text, sizeof(c->workers->text),
                       "none has dialled %s", coxi_door_url(c->workers->door));
    }
    return r;
}

/* Takes over the checkpoint directory. A store may not answer until `end_ms`. */
static int prepare_directory(struct cox_coordinator *c, uint64_t end_ms)
{
    int r = coxi_save_via(c->options.checkpoint_via, &c->saving.via_client);
    coxi_disk_give_up_at(end_ms);
    r = r == 0 ? coxi_save_prepare(c->options.checkpoint_dir, &c->saving.dir) : r;
    if (r == 0) {
        c->options.checkpoint_dir = c->saving.dir; /* also the root of a local ps */
        r = coxi_resume_claim(c);
    }
    coxi_disk_give_up_at(UINT64_MAX);
    return coxi_opening_code(c, r);
}

static int prepare_key(struct cox_coordinator *c)
{
    int r =
        coxi_key_open_member(c->options.key_file, "cox_options.key_file", &c->site.key);
    return r != 0
               ? r
               : coxi_key_set_seal(&c->site.key, c->options.seal, "cox_options.seal");
}

/* Makes everything that will run in this process; nothing runs yet. */
static int prepare(struct cox_coordinator *c, const struct cox_cluster *cluster,
                   uint64_t end_ms)
{
    int r = prepare_key(c);
    r = r == 0 && c->options.checkpoint_dir != NULL ? prepare_directory(c, end_ms) : r;
    r = r == 0 ? coxi_monitor_load(c) : r;
    if (r == 0) {
        coxi_exposed_tell(c);
    }
    if (r == 0 && cluster->local) {
        r = coxi_local_start(cluster, &c->options, &c->site.key, &c->site.local,
                             &c->site.cluster);
    } else if (r == 0) {
        r = coxi_cluster_copy(cluster, &c->site.cluster);
        r = r == 0 ? coxi_discovery_start(c, end_ms) : r;
    }
    if (r == 0) {
        r = coxi_links_new(c->options.peer_timeout_ms, &c->site.links);
    }
    if (r == 0) {
        r = coxi_loop_new(COXI_TICK_MS, on_tick, c, &c->loop);
    }
    if (r == 0) {
        coxi_loop_on_wake(c->loop, coxi_dispatch);
        r = open_ps(c);
    }
    if (r == 0) {
        r = coxi_workers_list(c);
    }
    if (r == 0 && c->options.listen != NULL) {
        r = open_door(c);
    }
    return r == 0 ? coxi_trigger_begin(c) : r;
}

static const struct coxi_replay_refs replay_refs = {
    .call_bytes = coxi_closure_logged_bytes,
    .call_forgotten = coxi_closure_forgotten,
    .loading_bytes = coxi_loading_bytes,
    .loading_ref = coxi_loading_ref,
    .loading_unref = coxi_loading_unref,
};

/* Takes over the ps, and restores them if necessary. */
static int take_ps(struct cox_coordinator *c, uint64_t end_ms)
{
    int r = coxi_opening_ps(c, end_ms);
    if (r == 0) {
        r = coxi_recovery_start(c, &replay_refs);
    }
    r = r == 0 && c->saving.dir != NULL ? coxi_resume(c) : r;
    return r == 0 ? coxi_monitor_start(c) : r;
}

static int start(struct cox_coordinator *c, const struct cox_cluster *cluster)
{
    uint64_t end_ms = c->options.open_timeout_ms < 0
                          ? UINT64_MAX
                          : coxi_now_ms() + (uint64_t)c->options.open_timeout_ms;
    COXI_CALL_AS(c, "cox_open");
    int r = coxi_monitor_new(c);
    r = r == 0 ? coxi_events_start(c) : r;
    r = r == 0 ? coxi_exposed_start(c) : r;
    r = r == 0 ? prepare(c, cluster, end_ms) : r;
    if (r == 0) {
        r = coxi_loop_start(c->loop, "cox:loop");
        c->site.loop_runs = r == 0;
        coxi_lock(&c->lock);
        c->life.runs = r == 0;
        coxi_unlock(&c->lock);
    }
    r = r == 0 ? take_ps(c, end_ms) : r;
    if (r == 0) {
        atomic_store(&c->ps.ready, true);
        coxi_door_open(c->workers->door);
        r = coxi_discovery_register(c);
        r = r == 0 ? coxi_opening_workers(c, end_ms) : r;
    }
    r = r == 0 ? coxi_tracing_open(c) : r;
    if (r == 0) {
        r = coxi_trigger_start(c);
    }
    r = coxi_opening_reason(c, r);
    coxi_lock(&c->lock);
    c->life.opened = r == 0;
    coxi_unlock(&c->lock);
    return r;
}

/* Makes the rooms' parts, before anything runs. */
static int parts_new(struct cox_coordinator *c)
{
    int r = coxi_trigger_new(c);
    if (r == 0) {
        r = coxi_workers_new(c, &coxi_crew_events);
    }
    if (r == 0) {
        r = coxi_resources_new(c);
    }
    if (r == 0) {
        r = coxi_modules_new(c);
    }
    if (r == 0) {
        r = coxi_closures_new(c);
    }
    if (r == 0) {
        r = coxi_callbacks_new(c);
    }
    if (r == 0) {
        r = coxi_datasets_new(c);
    }
    if (r == 0) {
        r = coxi_registry_new(c);
    }
    if (r != 0) {
        coxi_datasets_free(c);
        coxi_callbacks_free(c);
        coxi_closures_free(c);
        coxi_modules_free(c);
        coxi_resources_free(c);
        coxi_workers_free(c);
        coxi_trigger_free(c);
    }
    return r;
}

int cox_open(const struct cox_cluster *cluster, const struct cox_options *options,
             struct cox_coordinator **ret)
{
    if (cluster == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_open needs a cluster");
    }
    struct cox_coordinator *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return coxi_error_memory("a coordinator");
    }
    int r = parts_new(c);
    if (r != 0) {
        free(c);
        return r;
    }
    coordinator_init(c);
    r = coxi_options_take(c, options, cluster);
    if (r == 0) {
        r = start(c, cluster);
    }
    if (r != 0) {
        char text[COXI_ERROR_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        (void)cox_close(c, 0);
        return coxi_error(r, "%s", text);
    }
    *ret = c;
    return 0;
}

/* ---- closing */

static int stop_closures(struct cox_coordinator *c, const struct timespec *until,
                         int timeout_ms)
{
    int r = 0;
    coxi_lock(&c->lock);
    c->life.closing = true;
    (void)pthread_cond_broadcast(&c->life.room);
    (void)pthread_cond_broadcast(&c->life.idle);
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_loop_wake(c->loop);
    while (r == 0 && c->life.n_unsettled > 0) {
        if (!coxi_wait_until(&c->life.idle, &c->lock, until)) {
            r = coxi_error(COX_ETIMEDOUT, "%zu steps were still running after %d ms",
                           c->life.n_unsettled, timeout_ms);
        }
    }
    coxi_unlock(&c->lock);
    return r;
}

/* True while calls of other threads use the coordinator. */
static bool are_under_way(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    return c->life.n_calls > 0 ||
           c->life.n_waking != atomic_load(&c->closures->n_woken);
}

/* Waits for calls of other threads until `until`; false: some have not ended. Nothing
 * signals that a call has woken the loop, so this looks every ms. */
static bool await_calls(struct cox_coordinator *c, const struct timespec *until)
{
    bool in_time = true;
    coxi_lock(&c->lock);
    while (in_time && are_under_way(c)) {
        struct timespec slice = coxi_deadline(1);
        bool looks = c->life.n_calls == 0 && coxi_before(&slice, until);
        in_time =
            coxi_wait_until(&c->life.idle, &c->lock, looks ? &slice : until) || looks;
    }
    bool ended = !are_under_way(c);
    coxi_unlock(&c->lock);
    return ended;
}

/*
 * Ends the threads that send requests to ps or write a checkpoint, also users' threads.
 * After the deadline gives up the ps, which ends every request, and waits no longer for
 * the disk.
 */
static void stop_threads(struct cox_coordinator *c, const struct timespec *until)
{
    bool ended = coxi_trigger_end(c, until);
    ended = coxi_recovery_end(c, until) && ended;
    ended = coxi_resume_end(c, until) && ended;
    ended = await_calls(c, until) && ended;
    coxi_monitor_end_samples(c, until);
    for (uint32_t i = 0; !ended && i < c->ps.n; i++) {
        coxi_psc_give_up(c->ps.clients[i], "the coordinator is being closed");
    }
    atomic_store(&c->saving.leaves_disk, !ended);
    coxi_trigger_stop(c);
    coxi_recovery_stop(c);
    coxi_resume_stop(c);
    struct timespec never = coxi_deadline(-1);
    /* without a deadline: nothing is left for which they could wait */
    (void)await_calls(c, &never);
}

/* Closes the connections to workers; the loop stops when they are gone. */
static void stop_loop(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    c->life.shutdown = true;
    coxi_unlock(&c->lock);
    coxi_loop_wake(c->loop);
    coxi_loop_join(c->loop);
}

/* Releases all ps at once; a ps that does not answer will notice that the client is
 * gone. */
static void release_ps(struct cox_coordinator *c)
{
    const struct coxi_message message = {.kind = COXI_RELEASE, .release = c->session};
    struct coxi_ps_round round;
    struct coxi_ps_round_call *calls = calloc(c->ps.n + 1, sizeof(*calls));
    coxi_ps_round_begin(&round);
    for (uint32_t i = 0; calls != NULL && i < c->ps.n; i++) {
        /* A ps that was never reached, or is lost, has nothing to release. */
        if (coxi_psc_is_up(c->ps.clients[i])) {
            calls[i] = (struct coxi_ps_round_call){.expect = COXI_STATUS};
            calls[i].request.timeout_ms = RELEASE_MS;
            coxi_ps_round_add_now(&round, c->ps.clients[i], &message, &calls[i]);
        }
    }
    (void)coxi_ps_round_end(&round);
    free(calls);
}

/* The result of cox_close. COX_EFENCED (another client has taken over) takes
 * precedence, because the program may have run to its end without learning of it. */
static int close_code(struct cox_coordinator *c, int code)
{
    coxi_lock(&c->lock);
    if (c->life.fatal == COX_EFENCED) {
        code = coxi_error(c->life.fatal, "%s", c->life.fatal_text);
    }
    coxi_unlock(&c->lock);
    return code;
}

/* Reports failures of closures that no call has returned, unless the end of the run is
 * their cause. */
static void tell_untold(struct cox_coordinator *c)
{
    coxi_unshared(&c->lock); /* the threads have ended */
    if (c->life.untold.failed > 0 && c->life.fatal == 0) {
        coxi_event(
            c, COX_EVENT_CLOSURES_FAILED,
            COXI_OF(.error = c->life.untold.code, .closure = c->life.untold.first),
            "%llu closure%s failed and %llu %s cancelled, and no call has "
            "reported it; the first: closure %llu (%s)",
            (unsigned long long)c->life.untold.failed, coxi_s(c->life.untold.failed),
            (unsigned long long)c->life.untold.cancelled,
            c->life.untold.cancelled == 1 ? "was" : "were",
            (unsigned long long)c->life.untold.first.n, c->life.untold.text);
    }
}

/* Not before the loop has ended, because it may have to handle their loss. */
static void close_ps(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->ps.n; i++) {
        coxi_psc_close(c->ps.clients[i]);
    }
}

/* Ends the last threads that tell events. on_event may call functions, so nothing is
 * freed before this. */
static void stop_telling(struct cox_coordinator *c, const struct timespec *until)
{
    coxi_discovery_stop(c);
    tell_untold(c);
    coxi_monitor_flush(c, until);
    coxi_events_stop(c);
    coxi_monitor_stop(c, until);
}

/* Many checkpoints may be held, and each mark takes a request to a store. */
static void free_recovery(struct cox_coordinator *c, uint64_t end_ms)
{
    coxi_disk_give_up_at(end_ms);
    coxi_recovery_free(c);
    coxi_disk_give_up_at(UINT64_MAX);
}

int cox_close(struct cox_coordinator *c, int timeout_ms)
{
    if (c == NULL) {
        return 0;
    }
    int r = coxi_callbacks_check(c, "cox_close");
    if (r == 0) {
        r = coxi_events_check(c, "cox_close");
    }
    if (r != 0) {
        return r;
    }
    struct timespec until = coxi_deadline(timeout_ms);
    uint64_t end_ms =
        timeout_ms < 0 ? UINT64_MAX : coxi_now_ms() + (uint64_t)timeout_ms;
    coxi_trigger_let_save(c, &until, timeout_ms != 0);
    if (c->site.loop_runs) {
        r = stop_closures(c, &until, timeout_ms);
        coxi_exposed_end_trace(c);
        coxi_tracing_close(c, &until);
        stop_threads(c, &until);
        if (c->site.local == NULL) { /* daemons of a local cluster end anyway */
            release_ps(c);
        }
        stop_loop(c);
        coxi_callbacks_stop(c); /* now every future is settled */
        /* runs mail that a callback posted when the loop stopped */
        coxi_loop_join(c->loop);
    }
    stop_telling(c, &until);
    coxi_exposed_stop(c); /* before anything is freed that its pages tell of */
    coxi_trigger_stop(c); /* needed if cox_open has failed early */
    close_ps(c);
    free_recovery(c, end_ms);
    coxi_stats_free(c);
    coxi_tracing_free(c);
    coxi_resume_free(c);
    coxi_kept_close(c);
    coxi_loop_free(c->loop);
    coxi_door_free(c->workers->door);
    coxi_reach_free(c);
    coxi_workers_free(c);
    coxi_local_stop(c->site.local);
    coxi_datasets_free(c);
    coxi_registry_free(c);
    coxi_resources_free(c);
    coxi_links_free(c->site.links);
    coxi_key_wipe(&c->site.key);
    cox_cluster_free(c->site.cluster);
    coxi_ps_set_fini(&c->ps);
    coxi_task_stream_fini(&c->task_stream);
    coxi_mutex_fini(&c->saving.lock);
    free(c->saving.dir);
    coxi_events_free(c);
    coxi_monitor_free(c);
    r = close_code(c, r == 0 ? coxi_trigger_close_code(c) : r);
    coxi_trigger_free(c);
    free(c->option_texts);
    coxi_coordinator_unref(c);
    return r;
}
