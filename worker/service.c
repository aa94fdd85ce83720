/*
 * See service.h. Threads: the main one (signals, ticks), one for each connection
 * (net/server), the slots, and two for each ps (net/ps_client).
 */
#include "worker/service.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/rand.h"
#include "common/sync.h"
#include "net/daemon.h"
#include "net/server.h"
#include "net/traced.h"
#include "worker/announcer.h"
#include "worker/finding.h"
#include "worker/payloads.h"
#include "worker/run.h"
#include "worker/slots.h"

enum {
    DRAIN_MS = 10,
    /* time for the client to close the connection after the last report */
    LET_GO_MS = 1000,
};

struct worker {
    struct coxi_worker_options options;
    uint64_t incarnation;
    struct coxi_loop *loop;
    struct coxi_server *server;
    struct coxi_slots *slots;
    struct coxi_finding finding;
    int signal;
    uv_timer_t drain;       /* checks whether all has ended, after a signal */
    uint64_t idle_since_ms; /* since when nothing runs any more, after a signal; or 0 */
    bool closing;
    atomic_uint n_runs; /* runs that are not freed yet */
    struct coxi_budget payloads;
    /* lines about clients that were let in, refused, and that went */
    struct coxi_seldom clients[2];
    struct coxi_seldom clients_gone;
    /* guards crashes in the recorder, too; comes before the run's locks */
    struct coxi_mutex lock;
    /* of the client that is connected, or NULL */
    struct coxi_run *run COXI_GUARDED_BY(lock);
    bool greeted COXI_GUARDED_BY(lock); /* the client was sent our greeting */
    bool leaving COXI_GUARDED_BY(lock); /* there was a signal */
    bool told COXI_GUARDED_BY(lock);    /* the client was told that we leave */
};

/* ---- leaving */

/* Tells the client once, after the greeting, that this worker is about to leave. */
static void tell_leaving(struct worker *worker) COXI_REQUIRES(worker->lock)
{
    if (worker->run != NULL && worker->greeted && worker->leaving && !worker->told) {
        const struct coxi_message message = {.kind = COXI_LEAVING};
        (void)coxi_message_send(worker->run->control, &message, NULL, false);
        worker->told = true;
    }
}

/* ---- the client comes and goes */

/* On the loop, which stops with the last run if it only waits for that. */
static void on_run_free(void *arg)
{
    struct worker *worker = arg;
    if (atomic_fetch_sub(&worker->n_runs, 1) == 1 && worker->closing) {
        coxi_loop_stop(worker->loop);
    }
}

/*
 * Checks whether the client of connection `peer` may have the worker. A client that
 * connects again has given up its older connections. Their greetings may still be
 * queued, and must not replace the newer connection. COX_EBUSY, COX_EFENCED,
 * COX_ECLOSED.
 */
static int admit(const struct worker *worker, const struct coxi_peer *peer)
    COXI_REQUIRES(worker->lock)
{
    const struct coxi_session *session = &peer->hello.session;
    const struct coxi_run *run = worker->run;
    if (run == NULL) {
        return 0;
    }
    if (run->session.run != session->run) {
        return atomic_load(&run->closed)
                   ? 0
                   : coxi_error(
                         COX_EBUSY, "worker %u serves run %016llx: end that first",
                         worker->options.index, (unsigned long long)run->session.run);
    }
    if (run->session.generation > session->generation) {
        return coxi_error(COX_EFENCED, "worker %u serves generation %llu",
                          worker->options.index,
                          (unsigned long long)run->session.generation);
    }
    if (coxi_session_equal(&run->session, session)) {
        return run->options.connection > peer->number
                   ? coxi_error(COX_ECLOSED, "the client has opened a newer connection")
                   : 0;
    }
    /* A client that takes another's place has a higher generation. */
    return run->session.generation < session->generation || atomic_load(&run->closed)
               ? 0
               : coxi_error(COX_EFENCED,
                            "worker %u serves another client of generation %llu",
                            worker->options.index,
                            (unsigned long long)run->session.generation);
}

/* A client opens its control connection: begins a new run in place of a lost one. */
static int begin_run(struct worker *worker, struct coxi_peer *peer)
{
    struct coxi_run_options options = {
        .worker = worker->options.index,
        .incarnation = worker->incarnation,
        .connection = peer->number,
        .commit_window = worker->options.commit_window,
        .peer_timeout_ms = worker->options.peer_timeout_ms,
        .key = worker->options.key,
        .local_path = worker->options.local_path,
        .pull_cache_max = worker->options.pull_cache_max,
        .kept_max = worker->options.kept_max,
        .step_rows_max = worker->options.step_rows_max,
        .data_cache_max = worker->options.data_cache_max,
        .recorder = worker->options.recorder,
        .links = coxi_server_links(worker->server),
        .loop = worker->loop,
        .on_free = on_run_free,
        .arg = worker,
    };
    const struct coxi_session *session = &peer->hello.session;
    struct coxi_run *run = NULL;
    struct coxi_run *old = NULL;
    coxi_lock(&worker->lock);
    int r = admit(worker, peer);
    if (r == 0) {
        r = coxi_run_new(&options, session, peer->link, &run);
    }
    if (r == 0) {
        old = worker->run;
        worker->run = run;
        worker->greeted = worker->told = false;
        atomic_fetch_add(&worker->n_runs, 1);
        coxi_recorder_note_client(worker->options.recorder, true);
    }
    coxi_unlock(&worker->lock);
    if (old != NULL) {
        /*
         * Close the old connection, because its client may still use it: a client that
         * has dialled twice may use either connection, and an older client waits for
         * closures that run here.
         */
        coxi_link_close(old->control, COX_ECLOSED, "another took its place");
        coxi_run_close(old);
        coxi_slots_drop(worker->slots, old);
        coxi_run_unref(old);
    }
    return r;
}

/* A reference to the run of the client of `peer`, which may be any of its connections;
 * or NULL. */
static struct coxi_run *run_of_client(struct worker *worker,
                                      const struct coxi_peer *peer)
{
    struct coxi_run *run = NULL;
    coxi_lock(&worker->lock);
    if (worker->run != NULL &&
        coxi_session_equal(&worker->run->session, &peer->hello.session)) {
        run = coxi_run_ref(worker->run);
    }
    coxi_unlock(&worker->lock);
    return run;
}

/* Like run_of_client, but only if the run uses the connection `peer`. A message over an
 * older connection of the same client was meant for the previous run. */
static struct coxi_run *run_of(struct worker *worker, const struct coxi_peer *peer)
{
    struct coxi_run *run = run_of_client(worker, peer);
    if (run != NULL && !coxi_run_has_link(run, peer->link)) {
        coxi_run_unref(run);
        run = NULL;
    }
    return run;
}

static int log_client(struct worker *worker, const struct coxi_session *session,
                      int code)
{
    uint64_t n;
    if (coxi_seldom_some(&worker->clients[code != 0], &n)) {
        coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_WARN, "client",
                 "run=%016llx generation=%llu result=%s clients=%llu",
                 (unsigned long long)session->run,
                 (unsigned long long)session->generation, coxi_error_name(code),
                 (unsigned long long)n);
    }
    return code;
}

static int on_hello(void *arg, struct coxi_peer *peer)
{
    struct worker *worker = arg;
    if (peer->hello.role != COXI_ROLE_CLIENT) {
        return coxi_error(COX_EREFUSED, "this is a worker: it accepts only clients");
    }
    if (peer->hello.channel == COXI_CHANNEL_CONTROL) {
        return log_client(worker, &peer->hello.session, begin_run(worker, peer));
    }
    struct coxi_run *run = run_of_client(worker, peer);
    if (run == NULL) {
        return coxi_error(COX_EREFUSED,
                          "a data connection of a client that is not here");
    }
    int r = coxi_run_set_data(run, peer->link, peer->number);
    coxi_run_unref(run);
    return r;
}

/* Tells a client which of its steps ran when the previous process died; and, if this
 * worker is leaving, that it has come too late. */
static int on_greeted(void *arg, struct coxi_peer *peer)
{
    struct worker *worker = arg;
    if (peer->hello.channel != COXI_CHANNEL_CONTROL) {
        return 0;
    }
    struct coxi_crashed_head *crashed = malloc(COXI_RECORDER_MAX * sizeof(*crashed));
    if (crashed == NULL) {
        return coxi_error_memory("a report of crashes");
    }
    struct coxi_message message = {.kind = COXI_CRASHED};
    coxi_lock(&worker->lock);
    message.crashed.closures = crashed;
    message.crashed.n_closures =
        coxi_recorder_take(worker->options.recorder, &peer->hello.session, crashed);
    bool died = coxi_recorder_meet(worker->options.recorder, &peer->hello.session);
    coxi_unlock(&worker->lock);
    /* Sent even if no step ran: then the client clears the closures that were
     * committing. */
    int r = died || message.crashed.n_closures > 0
                ? coxi_message_send(peer->link, &message, NULL, false)
                : 0;
    free(crashed);
    coxi_lock(&worker->lock);
    if (worker->run != NULL && worker->run->control == peer->link) {
        worker->greeted = true;
        tell_leaving(worker);
    }
    coxi_unlock(&worker->lock);
    return r;
}

/* A connection that the run does not use gets no memory. */
static int on_payload(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message, size_t len)
{
    struct worker *worker = arg;
    struct coxi_run *run = run_of(worker, peer);
    int r = run != NULL ? coxi_budget_take(&worker->payloads, peer, message, len)
                        : coxi_error(COX_ECLOSED, "another connection took its place");
    coxi_run_unref(run);
    return r;
}

static void on_close(void *arg, struct coxi_peer *peer)
{
    struct worker *worker = arg;
    coxi_budget_give(&worker->payloads, peer);
    struct coxi_run *run = run_of(worker, peer);
    if (run == NULL) {
        return;
    }
    if (run->control == peer->link) {
        uint64_t n;
        if (coxi_seldom_some(&worker->clients_gone, &n)) {
            coxi_log(COXI_LOG_INFO, "client_gone", "run=%016llx gone=%llu",
                     (unsigned long long)run->session.run, (unsigned long long)n);
        }
        coxi_run_close(run);
        coxi_slots_drop(worker->slots, run);
        coxi_lock(&worker->lock);
        bool current = worker->run == run;
        if (current) {
            worker->run = NULL;
            coxi_recorder_note_client(worker->options.recorder, false);
        }
        coxi_unlock(&worker->lock);
        if (current) {
            coxi_run_unref(run);
        }
    } else {
        coxi_run_drop_data(run, peer->link);
    }
    coxi_run_unref(run);
}

/* ---- messages */

static int add_resource(struct worker *worker, struct coxi_run *run,
                        const struct coxi_resource *wanted,
                        const struct coxi_frame *frame)
{
    bool waits = false;
    if (run->n_ps == 0) {
        return coxi_error(COX_EPROTO, "a resource before a layout");
    }
    int r =
        coxi_run_add_resource(run, wanted, frame->payload, frame->payload_len, &waits);
    if (waits) {
        coxi_slots_tend(worker->slots, run);
    }
    return r;
}

static int take_closures(struct worker *worker, struct coxi_run *run,
                         const struct coxi_dispatch *dispatch,
                         const struct coxi_frame *frame)
{
    coxi_run_echo(run, dispatch->sent_us);
    return run->n_ps == 0 ? coxi_error(COX_EPROTO, "closures before a layout")
                          : coxi_slots_push(worker->slots, run, dispatch,
                                            frame->payload, frame->payload_len);
}

static int load_module(struct worker *worker, struct coxi_run *run,
                       const struct coxi_message *m, const struct coxi_frame *frame)
{
    coxi_run_load(run, &worker->options.modules, m,
                  frame->payload_len > 0 ? frame->payload : NULL, frame->payload_len);
    return 0;
}

static int handle(struct worker *worker, struct coxi_run *run,
                  const struct coxi_peer *peer, const struct coxi_message *m,
                  const struct coxi_frame *frame)
{
    /* A cast, because only kinds that are taken are listed. */
    switch ((int)m->kind) {
    case COXI_LAYOUT:
        return coxi_run_set_layout(run, &m->layout);
    case COXI_MODULE:
        return load_module(worker, run, m, frame);
    case COXI_DISPATCH:
        return take_closures(worker, run, &m->dispatch, frame);
    case COXI_RESOURCE:
        return add_resource(worker, run, &m->resource, frame);
    case COXI_RESOURCE_DROP:
        return coxi_slots_drop_resource(worker->slots, run, &m->resource);
    case COXI_RECALL:
        return coxi_slots_recall(worker->slots, run, &m->recall);
    case COXI_RESULT_WANT:
        return coxi_run_send_result(run, &m->result);
    case COXI_TRACE_ASK:
        return coxi_traced_answer(run->control, m, run->session.run);
    case COXI_RESULT_DROP:
        coxi_results_drop_all(&run->results, &m->recall);
        return 0;
    case COXI_FILE_BYTES:
        return coxi_client_files_answer(&run->files, m->request, &m->file_bytes,
                                        frame->payload, frame->payload_len);
    case COXI_WANT_DATA:
        return coxi_server_dial_data(worker->server, peer);
    default:
        break;
    }
    return coxi_error(COX_EPROTO, "a worker takes no message of kind %d", (int)m->kind);
}

static int on_message(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame)
{
    struct worker *worker = arg;
    if (frame->dropped) {
        return coxi_error(COX_ELIMIT,
                          "a payload of %zu bytes, for which a worker has no room",
                          frame->payload_len);
    }
    struct coxi_run *run = run_of(worker, peer);
    if (run == NULL) {
        return coxi_error(COX_ECLOSED, "another connection took its place");
    }
    int r = handle(worker, run, peer, message, frame);
    coxi_run_unref(run);
    return r;
}

static const struct coxi_server_events events = {.on_hello = on_hello,
                                                 .on_greeted = on_greeted,
                                                 .on_payload = on_payload,
                                                 .on_message = on_message,
                                                 .on_close = on_close};

/* ---- life */

/* All has ended, and the client was told everything. It closes the connection if
 * nothing more is under way; we do not wait for it for long. */
static bool is_let_go(struct worker *worker, bool has_client)
{
    uint64_t now = coxi_now_ms();
    if (worker->idle_since_ms == 0) {
        worker->idle_since_ms = now;
    }
    return !has_client || now - worker->idle_since_ms >= LET_GO_MS;
}

static void on_tick(void *arg)
{
    struct worker *worker = arg;
    coxi_server_tick(worker->server);
    coxi_log_trim();
    coxi_lock(&worker->lock);
    struct coxi_run *run = worker->run != NULL ? coxi_run_ref(worker->run) : NULL;
    coxi_unlock(&worker->lock);
    bool ending = worker->signal != 0 && !worker->closing;
    bool idle = ending && coxi_slots_stop(worker->slots);
    if (run != NULL && idle) {
        idle = coxi_run_drain(run);
    } else if (run != NULL) {
        coxi_run_tick(run);
        coxi_slots_tell_memory(worker->slots, run);
    }
    if (idle && is_let_go(worker, run != NULL)) {
        coxi_loop_stop(worker->loop);
    }
    coxi_run_unref(run);
}

static void on_drain(uv_timer_t *timer)
{
    on_tick(timer->data);
}

static void on_signal(void *arg, int signum)
{
    struct worker *worker = arg;
    if (worker->signal != 0) {
        /* a second signal: does not wait for running steps */
        _exit(COXI_EXIT_AGAIN + signum);
    }
    coxi_log(COXI_LOG_INFO, "ending", "signal=%d", signum);
    worker->signal = signum;
    /* a client that comes now would come in vain */
    coxi_server_dial_stop(worker->server);
    /* First, or the client would send others in the place of what is handed back. */
    coxi_lock(&worker->lock);
    worker->leaving = true;
    tell_leaving(worker);
    coxi_unlock(&worker->lock);
    coxi_slots_close(worker->slots);
    worker->drain.data = worker;
    (void)uv_timer_init(coxi_loop_uv(worker->loop), &worker->drain);
    (void)uv_timer_start(&worker->drain, on_drain, 0, DRAIN_MS);
}

/* From here on standard error is for the steps, and goes where standard output goes;
 * the log keeps the old one. */
static void part_prints(void)
{
    int log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (log >= 0) {
        coxi_log_to(log);
        (void)dup2(STDOUT_FILENO, STDERR_FILENO);
    }
}

static int open_worker(struct worker *worker)
{
    const struct coxi_worker_options *options = &worker->options;
    struct coxi_server_options server = {
        .listen = options->listen,
        .dial = options->client,
        .dials = options->etcd != NULL,
        .self = {.role = COXI_ROLE_WORKER,
                 .index = options->index,
                 .incarnation = worker->incarnation,
                 .slots = options->slots,
                 .name = options->name},
        .peer_timeout_ms = options->peer_timeout_ms,
        .key = options->key,
        .local_path = options->local_path,
        .events = &events,
        .arg = worker,
    };
    int tick_ms =
        options->peer_timeout_ms / 16 < 500 ? options->peer_timeout_ms / 16 : 500;
    int r = coxi_loop_new(tick_ms + 1, on_tick, worker, &worker->loop);
    if (r == 0) {
        r = coxi_loop_on_signal(worker->loop, SIGTERM, on_signal);
    }
    if (r == 0) {
        const struct coxi_slots_options slots = {
            .n = options->slots,
            .recorder = options->recorder,
            .loop = worker->loop,
            .memory_max = options->step_memory_max,
        };
        r = coxi_slots_new(&slots, &worker->slots);
    }
    if (r == 0) {
        r = coxi_server_open(&server, &worker->server);
    }
    if (r == 0 && options->address_file != NULL) {
        r = coxi_announcer_tell(options->announcer, options->address_file,
                                coxi_server_url(worker->server));
    }
    if (r == 0) {
        if (options->prints_apart) {
            part_prints();
        }
        /* From here on an exit is a step's doing. Say so before any step can run. */
        coxi_recorder_note_client(options->recorder, false);
        coxi_recorder_serve(options->recorder);
        coxi_server_start(worker->server);
    }
    return r != 0 ? r
                  : coxi_finding_start(&worker->finding, options->etcd, options->name,
                                       options->may_use_tcp, worker->server);
}

static void close_worker(struct worker *worker)
{
    worker->closing = true;
    coxi_finding_stop(&worker->finding);
    if (worker->slots != NULL) {
        (void)coxi_slots_stop(worker->slots);
    }
    if (worker->server != NULL) {
        coxi_server_stop(worker->server); /* ends the run, through on_close */
    }
    if (atomic_load(&worker->n_runs) > 0) {
        coxi_loop_run(worker->loop); /* until the last commit has ended */
    }
    coxi_slots_free(worker->slots); /* before the loop, which has their timer */
    coxi_loop_free(worker->loop);
    coxi_server_free(worker->server);
    coxi_mutex_fini(&worker->lock);
}

int coxi_worker_serve(const struct coxi_worker_options *options, int *ret_signal)
{
    struct worker worker = {.options = *options, .incarnation = coxi_random_id()};
    coxi_mutex_init(&worker.lock);
    coxi_budget_init(&worker.payloads);
    bool dials = options->client != NULL || options->etcd != NULL;
    int r = open_worker(&worker);
    if (r == 0) {
        coxi_log(COXI_LOG_INFO, dials ? "dialling" : "listening",
                 "address=%s slots=%u pid=%d%s%s", coxi_server_url(worker.server),
                 options->slots, (int)getpid(), dials ? " name=" : "",
                 dials ? options->name : "");
        coxi_loop_run(worker.loop);
        *ret_signal = worker.signal;
    }
    close_worker(&worker);
    return r;
}
