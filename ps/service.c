/*
 * See service.h. Threads: one for each connection (net/server), and for each run
 * (ps/tenants.h) one for snapshots and one for restores (ps/deferred.h), all of which use
 * the run's store at the same time.
 * However slow the disk is, only the peer that asked for a snapshot or a restore waits
 * for it.
 */
#include "ps/service.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/trace.h"
#include "net/server.h"
#include "net/traced.h"
#include "ps/claims.h"
#include "ps/shards.h"
#include "ps/tenants.h"
#include "schema/limits.h"

_Static_assert((int)COXI_PULL_ROOM <= (int)COXI_LINK_MADE_ROOM,
               "what a link has room for is enough");

enum { REMOVE_TRIES = 10, REMOVE_WAIT_MS = 1000 };

struct coxi_ps {
    struct coxi_server *server;
    struct coxi_tenants *tenants;
    bool timed;
    atomic_uint n_clients;         /* connections */
    atomic_uint_least64_t left_ms; /* when the last one went; 0: none has */
};

/* The run of a peer that has greeted. */
static struct coxi_tenant *tenant_of(const struct coxi_peer *peer)
{
    return peer->of;
}

/* ---- answers */

static int answer_status(struct coxi_peer *peer, const struct coxi_message *request,
                         enum coxi_message_kind kind, int code)
{
    struct coxi_message answer = {.request = request->request, .kind = kind};
    answer.status.code = code;
    answer.status.message = code != 0 ? coxi_error_text() : "";
    return coxi_message_send(peer->link, &answer, NULL, false);
}

/* A long answer that is being made. */
struct answer {
    struct coxi_store *store;
    struct coxi_pulling pulling;
};

static int make_answer(void *arg, void *to, size_t room, size_t *ret_len)
{
    struct answer *answer = arg;
    return coxi_store_pull_some(answer->store, &answer->pulling, to, room, ret_len);
}

/* The round for which a pull waits may need the answers to commits before it. */
static void send_queued(void *link)
{
    (void)coxi_link_wait_room(link, 0);
}

/* A short answer is sent together with others of its batch; a long one is made while it
 * is sent. */
static int answer_pull(struct coxi_tenant *tenant, struct coxi_peer *peer,
                       const struct coxi_message *request,
                       const struct coxi_frame *frame)
{
    struct coxi_message message = {.request = request->request, .kind = COXI_PULLED};
    struct answer answer = {.store = tenant->store};
    struct coxi_pull pull = request->pull;
    coxi_payloads_lend_token(tenant->store, peer, &pull.session);
    int r = coxi_payloads_aside(&tenant->payloads, peer,
                                request->pull.n_items * sizeof(uint64_t));
    if (r == 0) {
        r = coxi_store_pull_await(tenant->store, &pull, send_queued, peer->link);
    }
    if (r == 0) {
        r = coxi_store_pull_begin(tenant->store, &pull, frame->payload,
                                  frame->payload_len, &peer->aside, &answer.pulling);
    }
    size_t len = answer.pulling.left;
    message.status.message = "";
    message.status.versions = (const uint64_t *)(const void *)peer->aside.data;
    message.status.n_versions = peer->aside.len / sizeof(uint64_t);
    if (r == 0 && len >= COXI_LINK_COPY_MAX) {
        return coxi_message_send_made(peer->link, &message, len, make_answer, &answer);
    }
    peer->scratch.len = 0;
    if (r == 0 && len > 0) {
        r = coxi_buffer_reserve(&peer->scratch, COXI_PULL_ROOM);
    }
    if (r == 0 && len > 0) {
        r = coxi_store_pull_some(tenant->store, &answer.pulling, peer->scratch.data,
                                 COXI_PULL_ROOM, &peer->scratch.len);
    }
    if (r != 0) {
        return answer_status(peer, request, COXI_PULLED, r);
    }
    struct iovec segment = {peer->scratch.data, len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    return coxi_message_send(peer->link, &message, &payload, false);
}

static int answer_commit(struct coxi_tenant *tenant, struct coxi_peer *peer,
                         const struct coxi_message *request,
                         const struct coxi_frame *frame)
{
    bool duplicate = false;
    struct coxi_commit commit = request->commit;
    commit.worker = peer->hello.role == COXI_ROLE_WORKER
                        ? coxi_maybe_of(peer->hello.index)
                        : coxi_maybe_none();
    int r = coxi_store_commit(tenant->store, &commit, frame->payload,
                              frame->payload_len, &peer->aside, &duplicate);
    struct coxi_message answer = {.request = request->request, .kind = COXI_COMMITTED};
    answer.status.code = r;
    answer.status.message = r != 0 ? coxi_error_text() : "";
    answer.status.duplicate = duplicate;
    answer.status.ended = r == 0 && commit.round != 0 &&
                          coxi_store_has_ended(tenant->store, commit.round);
    return coxi_message_send(peer->link, &answer, NULL, false);
}

static int defer(struct coxi_deferred *deferred, struct coxi_peer *peer,
                 const struct coxi_message *request, const struct coxi_frame *frame)
{
    int r = coxi_deferred_add(deferred, peer->link, frame);
    return r == 0 ? 0 : answer_status(peer, request, COXI_STATUS, r);
}

static int answer_void(struct coxi_tenant *tenant, struct coxi_peer *peer,
                       const struct coxi_message *request)
{
    struct coxi_buffer segments = {0};
    struct coxi_buffer touched = {0};
    struct coxi_message answer = {.request = request->request, .kind = COXI_VOIDED};
    int r = coxi_store_meant(tenant->store, request->void_.incarnation);
    if (r == 0) {
        r = coxi_store_void(tenant->store, &request->void_, &segments, &touched);
    }
    answer.voided = (struct coxi_voided){.code = r, .message = ""};
    if (r != 0) {
        answer.voided.message = coxi_error_text();
    } else {
        answer.voided.segments = (const void *)segments.data;
        answer.voided.n_segments = segments.len / sizeof(*answer.voided.segments);
        answer.voided.touched = (const void *)touched.data;
        answer.voided.n_touched = touched.len / sizeof(*answer.voided.touched);
    }
    r = coxi_message_send(peer->link, &answer, NULL, false);
    coxi_buffer_fini(&segments);
    coxi_buffer_fini(&touched);
    return r;
}

static int describe(struct coxi_tenant *tenant, struct coxi_peer *peer,
                    const struct coxi_message *request)
    COXI_REQUIRES(tenant->describing)
{
    struct coxi_message answer = {.request = request->request, .kind = COXI_LAYOUT};
    struct coxi_description description;
    int r = coxi_store_describe(tenant->store, &description);
    if (r != 0) {
        return answer_status(peer, request, COXI_STATUS, r);
    }
    const struct coxi_ps_address self = {
        .address = "", .incarnation = coxi_store_incarnation(tenant->store)};
    answer.layout = (struct coxi_layout){.session = description.session,
                                         .servers = &self,
                                         .n_servers = 1,
                                         .variables = description.variables,
                                         .n_variables = description.n};
    r = coxi_message_fits(&answer)
            ? coxi_message_send(peer->link, &answer, NULL, false)
            : answer_status(peer, request, COXI_STATUS,
                            coxi_error(COX_ELIMIT,
                                       "ps %u has too many variables to "
                                       "describe them all: %zu",
                                       tenant->ps_index, description.n));
    coxi_description_fini(&description);
    return r;
}

static int answer_describe(struct coxi_tenant *tenant, struct coxi_peer *peer,
                           const struct coxi_message *request)
{
    coxi_lock(&tenant->describing);
    int r = describe(tenant, peer, request);
    coxi_unlock(&tenant->describing);
    return r;
}

/* ---- requests */

static int on_payload(void *arg, struct coxi_peer *peer, const struct coxi_message *m,
                      size_t len)
{
    (void)arg;
    return coxi_payloads_take(&tenant_of(peer)->payloads, peer, m, len);
}

static int on_memory(void *arg, struct coxi_peer *peer, size_t from, size_t to)
{
    (void)arg;
    return coxi_payloads_resize(&tenant_of(peer)->payloads, peer, from, to);
}

static void on_close(void *arg, struct coxi_peer *peer)
{
    struct coxi_ps *ps = arg;
    if (peer->hello.role == COXI_ROLE_CLIENT) {
        atomic_store(&ps->left_ms, coxi_now_ms());
        (void)atomic_fetch_sub(&ps->n_clients, 1);
    }
    coxi_payloads_give(&tenant_of(peer)->payloads, peer);
    coxi_tenant_leave(tenant_of(peer));
}

static int on_hello(void *arg, struct coxi_peer *peer)
{
    struct coxi_ps *ps = arg;
    if (peer->hello.role == COXI_ROLE_PS) {
        return coxi_error(COX_EREFUSED, "this is a ps: it accepts no other ps");
    }
    const struct coxi_party *proven = coxi_link_proven(peer->link);
    struct coxi_tenant *tenant;
    int r = coxi_tenants_get(ps->tenants, proven != NULL ? proven->key : 0, &tenant);
    peer->of = tenant;
    if (r == 0) {
        r = coxi_tenant_enter(tenant);
    }
    if (r != 0) {
        return r;
    }
    if (coxi_tenant_is_removed(tenant)) {
        r = coxi_error(COX_EDENIED, "the key of this run was removed");
    } else if (peer->hello.role == COXI_ROLE_CLIENT) {
        r = coxi_store_greeted(tenant->store, &peer->hello.session);
    }
    if (r != 0) {
        coxi_tenant_leave(tenant);
    } else if (peer->hello.role == COXI_ROLE_CLIENT) {
        (void)atomic_fetch_add(&ps->n_clients, 1);
    }
    return r;
}

static uint64_t incarnation(void *arg, const struct coxi_peer *peer)
{
    (void)arg;
    return coxi_store_incarnation(tenant_of(peer)->store);
}

static int answer_create(struct coxi_tenant *tenant, struct coxi_peer *peer,
                         const struct coxi_message *request)
{
    int r = coxi_store_meant(tenant->store, request->create.incarnation);
    if (r == 0) {
        r = coxi_store_create(tenant->store, &request->create);
    }
    return answer_status(peer, request, COXI_STATUS, r);
}

/* Sends no answer. A watermark that comes too late changes nothing; an impossible one
 * closes the connection. */
static int take_watermark(struct coxi_tenant *tenant,
                          const struct coxi_watermark *watermark)
{
    int r = coxi_store_meant(tenant->store, watermark->incarnation);
    if (r == 0) {
        r = coxi_store_advance(tenant->store, watermark);
    }
    return r == COX_ELIMIT ? r : 0;
}

static int answer_count(struct coxi_tenant *tenant, struct coxi_peer *peer,
                        const struct coxi_message *request)
{
    struct coxi_message answer = {.request = request->request, .kind = COXI_COUNTS};
    coxi_store_counts(tenant->store, &request->count, &answer.counts);
    return coxi_message_send(peer->link, &answer, NULL, false);
}

/* Only the client that has the ps learns what it does. */
static int answer_trace(struct coxi_tenant *tenant, struct coxi_peer *peer,
                        const struct coxi_message *request)
{
    const struct coxi_session *session = &peer->hello.session;
    int r = coxi_store_serves(tenant->store, session,
                              coxi_store_incarnation(tenant->store));
    return r != 0 ? answer_status(peer, request, COXI_STATUS, r)
                  : coxi_traced_answer(peer->link, request, session->run);
}

/* True if it commits updates of a step: it neither sets a rate nor ends a round. */
static bool commits(const struct coxi_message *m)
{
    bool may = m->kind == COXI_COMMIT;
    for (size_t i = 0; may && i < m->commit.n_updates; i++) {
        may = m->commit.updates[i].op != COXI_OP_RATE &&
              m->commit.updates[i].op != COXI_OP_ROUND;
    }
    return may;
}

/* Checks that a peer of this role may send such a request: only clients decide who has
 * the ps and which variables there are, and each only for itself. COX_EREFUSED. */
static int check_role(const struct coxi_peer *peer, const struct coxi_message *m)
{
    enum coxi_message_kind kind = m->kind;
    bool reads = kind == COXI_PULL || kind == COXI_COUNT;
    switch (peer->hello.role) {
    case COXI_ROLE_CLIENT:
        return kind != COXI_CLAIM ||
                       coxi_session_equal(&peer->hello.session, &m->claim.session)
                   ? 0
                   : coxi_error(COX_EREFUSED, "a client claims a ps only for itself");
    case COXI_ROLE_WORKER:
        return reads || commits(m)
                   ? 0
                   : coxi_error(COX_EREFUSED,
                                "a worker may only pull, and commit what steps push");
    case COXI_ROLE_TOOL:
        return reads || kind == COXI_DESCRIBE
                   ? 0
                   : coxi_error(COX_EREFUSED, "a tool may only read");
    case COXI_ROLE_PS:
        break; /* on_hello has refused it */
    }
    return coxi_error(COX_EREFUSED, "a ps asks another ps nothing");
}

static int answer_release(struct coxi_tenant *tenant, struct coxi_peer *peer,
                          const struct coxi_message *m)
{
    return answer_status(peer, m, COXI_STATUS,
                         coxi_claims_release(tenant, &m->release));
}

static int handle(struct coxi_tenant *tenant, struct coxi_peer *peer,
                  const struct coxi_message *m, const struct coxi_frame *frame)
{
    /* A cast, because only kinds that are taken are listed. */
    switch ((int)m->kind) {
    case COXI_DESCRIBE:
        return answer_describe(tenant, peer, m);
    case COXI_PULL:
        return answer_pull(tenant, peer, m, frame);
    case COXI_COMMIT:
        return answer_commit(tenant, peer, m, frame);
    case COXI_CLAIM:
        return coxi_claims_answer(tenant, peer, m);
    case COXI_RELEASE:
        return answer_release(tenant, peer, m);
    case COXI_CREATE:
        return answer_create(tenant, peer, m);
    case COXI_WATERMARK:
        return take_watermark(tenant, &m->watermark);
    case COXI_SNAPSHOT:
        return defer(tenant->snapshots, peer, m, frame);
    case COXI_VOID:
        return answer_void(tenant, peer, m);
    case COXI_RESTORE:
    case COXI_PROBE:
        return defer(tenant->restores, peer, m, frame);
    case COXI_EXCHANGE:
        return coxi_shards_turn(tenant, peer->link, m, frame);
    case COXI_LOAD:
        return coxi_shards_load(tenant, peer->link, m, frame);
    case COXI_COUNT:
        return answer_count(tenant, peer, m);
    case COXI_TRACE_ASK:
        return answer_trace(tenant, peer, m);
    default:
        break;
    }
    return coxi_error(COX_EPROTO, "a ps takes no message of kind %d", (int)m->kind);
}

/* Handles a pull or commit, and counts how long that takes. */
static int handle_timed(struct coxi_tenant *tenant, struct coxi_peer *peer,
                        const struct coxi_message *m, const struct coxi_frame *frame)
{
    struct coxi_times_of *of = &tenant->times[peer->number % COXI_TIMES_OF];
    struct coxi_request_times *times = m->kind == COXI_PULL ? &of->pulls : &of->commits;
    unsigned n = coxi_request_stands_for(times);
    if (n == 0) {
        return handle(tenant, peer, m, frame);
    }
    uint64_t begun_ns = coxi_now_ns();
    int r = handle(tenant, peer, m, frame);
    coxi_request_took(times, n, begun_ns, coxi_now_ns());
    return r;
}

static uint64_t run_of(const struct coxi_peer *peer, const struct coxi_message *m)
{
    return m->kind == COXI_PULL     ? m->pull.session.run
           : m->kind == COXI_COMMIT ? m->commit.session.run
                                    : peer->hello.session.run;
}

static void trace_request(const struct coxi_peer *peer, const struct coxi_message *m,
                          uint64_t begun_ns)
{
    struct coxi_trace_of of = {
        .kind = COXI_TRACE_REQUEST, .arg = (uint32_t)m->kind, .run = run_of(peer, m)};
    if (m->kind == COXI_PULL) {
        of.kind = COXI_TRACE_PULL;
        of.flow = m->pull.flow;
    } else if (m->kind == COXI_COMMIT) {
        of.kind = COXI_TRACE_COMMIT;
        of.closure = m->commit.closure;
        of.flow = m->commit.flow;
    }
    coxi_trace_end(begun_ns, &of);
}

static int on_message(void *arg, struct coxi_peer *peer, const struct coxi_message *m,
                      const struct coxi_frame *frame)
{
    const struct coxi_ps *ps = arg;
    int r = check_role(peer, m);
    if (r != 0) {
        return answer_status(peer, m, COXI_STATUS, r);
    }
    if (frame->dropped) {
        return coxi_payloads_refuse(&tenant_of(peer)->payloads, peer, m);
    }
    uint64_t begun_ns = coxi_trace_begin();
    if (begun_ns != 0) {
        coxi_trace_work_for(run_of(peer, m));
    }
    r = ps->timed && (m->kind == COXI_PULL || m->kind == COXI_COMMIT)
            ? handle_timed(tenant_of(peer), peer, m, frame)
            : handle(tenant_of(peer), peer, m, frame);
    if (begun_ns != 0) {
        trace_request(peer, m, begun_ns);
        coxi_trace_work_for(0);
    }
    return r;
}

static const struct coxi_server_events events = {
    .on_hello = on_hello,
    .on_payload = on_payload,
    .on_memory = on_memory,
    .on_message = on_message,
    .on_close = on_close,
    .incarnation = incarnation,
};

/* ---- life */

int coxi_ps_open(const struct coxi_ps_options *options, struct coxi_ps **ret)
{
    struct coxi_ps *ps = calloc(1, sizeof(*ps));
    if (ps == NULL) {
        return coxi_error_memory("the ps");
    }
    const struct coxi_tenants_options tenancy = {
        .ps_index = options->index,
        .memory_max = options->memory_max,
        .quota = options->run_quota,
        .root = options->checkpoint_root,
        .keys = options->keys,
        .seats = options->keys != NULL ? options->runs_max : 1,
        .do_snapshot = coxi_shards_write,
        .do_reading = coxi_shards_read,
    };
    const struct coxi_server_options server = {
        .listen = options->listen,
        .self = {.role = COXI_ROLE_PS, .index = options->index},
        .peer_timeout_ms = options->peer_timeout_ms,
        .key = options->key,
        .keys = options->keys,
        .local_path = options->local_path,
        .events = &events,
        .arg = ps,
    };
    ps->timed = options->timed;
    int r = coxi_tenants_new(&tenancy, &ps->tenants);
    if (r == 0 && options->keys == NULL) {
        struct coxi_tenant *only; /* made now, so that a failure shows at once */
        r = coxi_tenants_get(ps->tenants, 0, &only);
    }
    if (r == 0) {
        r = coxi_server_open(&server, &ps->server);
    }
    if (r != 0) {
        coxi_ps_close(ps);
        return r;
    }
    coxi_server_start(ps->server);
    *ret = ps;
    return 0;
}

struct coxi_tenants *coxi_ps_tenants(struct coxi_ps *ps)
{
    return ps->tenants;
}

const char *coxi_ps_url(const struct coxi_ps *ps)
{
    return coxi_server_url(ps->server);
}

static bool is_of(const void *arg, const struct coxi_peer *peer)
{
    return peer->of == arg;
}

/* Closes connections until none is left: one may just be greeting. */
static void remove_tenant(struct coxi_ps *ps, struct coxi_tenant *tenant)
{
    int i = 0;
    do {
        coxi_server_close(ps->server, is_of, tenant, COX_EDENIED,
                          "the key of this run was removed");
    } while (!coxi_tenant_await_left(tenant, REMOVE_WAIT_MS) && ++i < REMOVE_TRIES);
    coxi_tenant_forget(tenant);
}

void coxi_ps_take_keys(struct coxi_ps *ps)
{
    coxi_tenants_note_count(ps->tenants);
    for (uint32_t i = 0; i < coxi_tenants_count(ps->tenants); i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(ps->tenants, i);
        if (tenant != NULL && coxi_tenant_is_removed(tenant)) {
            remove_tenant(ps, tenant);
        }
    }
}

void coxi_ps_tick(struct coxi_ps *ps)
{
    coxi_server_tick(ps->server);
    coxi_tenants_tick(ps->tenants);
}

bool coxi_ps_has_client(struct coxi_ps *ps, uint64_t *ret_left_ms)
{
    /* in this order: if the last one goes now, this sees when */
    bool has = atomic_load(&ps->n_clients) > 0;
    *ret_left_ms = atomic_load(&ps->left_ms);
    return has;
}

void coxi_ps_close(struct coxi_ps *ps)
{
    if (ps != NULL) {
        if (ps->server != NULL) {
            coxi_server_stop(ps->server);
        }
        coxi_tenants_stop(ps->tenants);
        coxi_server_free(ps->server);
        coxi_tenants_free(ps->tenants);
        free(ps);
    }
}
