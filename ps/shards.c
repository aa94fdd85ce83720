/* See shards.h. */
#include "ps/shards.h"

#include <stdatomic.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/trace.h"
#include "ps/places.h"
#include "ps/tenants.h"
#include "schema/limits.h"

/* A carry waits so long for a client that has no connection. */
enum { CLIENT_MS = 2000 };

static int send_status(struct coxi_link *link, const struct coxi_message *request,
                       int code)
{
    struct coxi_message answer = {.request = request->request, .kind = COXI_STATUS};
    answer.status.code = code;
    answer.status.message = code != 0 ? coxi_error_text() : "";
    return coxi_message_send(link, &answer, NULL, false);
}

static void log_snapshot(struct coxi_tenant *tenant,
                         const struct coxi_snapshot *snapshot,
                         const struct coxi_snapshot_file *file, int code)
{
    uint64_t n;
    if (!coxi_seldom_some(&tenant->told_of.snapshots[code != 0], &n)) {
        return;
    }
    if (code != 0) {
        coxi_log(COXI_LOG_ERROR, "snapshot_failed", "path=%s failed=%llu error=\"%s\"",
                 snapshot->path, (unsigned long long)n, coxi_error_text());
        return;
    }
    coxi_log(COXI_LOG_INFO, "snapshot",
             "number=%llu base=%llu bytes=%llu held_us_max=%llu saved_bytes=%llu "
             "snapshots=%llu",
             (unsigned long long)snapshot->number, (unsigned long long)file->base,
             (unsigned long long)file->bytes, (unsigned long long)file->held_us_max,
             (unsigned long long)file->saved_bytes, (unsigned long long)n);
}

static void log_restore(struct coxi_tenant *tenant, const struct coxi_restore *restore,
                        int code)
{
    uint64_t n;
    if (coxi_seldom_some(&tenant->told_of.restores[code != 0], &n)) {
        coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_ERROR, "restore",
                 "path=%s result=%s restores=%llu error=\"%s\"", restore->path,
                 coxi_error_name(code), (unsigned long long)n,
                 code != 0 ? coxi_error_text() : "");
    }
}

/* ---- carries */

/* Whom a carry waits for. */
struct watched {
    struct coxi_tenant *tenant;
    struct coxi_deferred *line;
    const struct coxi_session *session;
    uint64_t incarnation;
    /* since when nobody waits for the request; 0: somebody does. Several threads look */
    atomic_uint_least64_t since_ms;
};

/*
 * The reason why the carry cannot end well: the client has lost the ps, or is gone. A
 * client whose connection breaks asks again on the next one.
 */
static int check_client(void *arg)
{
    struct watched *watched = arg;
    uint64_t now = coxi_now_ms();
    uint64_t since = 0;
    if (!coxi_deferred_is_orphaned(watched->line)) {
        atomic_store(&watched->since_ms, 0);
    } else if (!atomic_compare_exchange_strong(&watched->since_ms, &since, now) &&
               now >= since + CLIENT_MS) {
        return coxi_error(COX_EPSLOST, "the client is gone");
    }
    return coxi_store_belongs(watched->tenant->store, watched->session,
                              watched->incarnation);
}

/* Into the file, or on the way to the client. */
static int take_snapshot(struct coxi_tenant *tenant,
                         const struct coxi_snapshot *request,
                         struct coxi_snapshot_file *ret)
{
    struct coxi_file_sink sink;
    struct watched watched = {tenant, tenant->snapshots, &request->session,
                              request->incarnation, 0};
    if (request->carry == 0) {
        return coxi_store_snapshot(tenant->store, request, ret);
    }
    int r = coxi_carry_begin(tenant->outgoing, &request->session, request->carry,
                             check_client, &watched);
    if (r == 0) {
        coxi_carry_sink(tenant->outgoing, &sink);
        r = coxi_store_snapshot_to(tenant->store, request, &sink, ret);
    }
    return r;
}

/* From the file, or from the client. */
static int load_shard(struct coxi_tenant *tenant, const struct coxi_restore *request)
{
    struct coxi_file_source source;
    struct watched watched = {tenant, tenant->restores, &request->session,
                              request->incarnation, 0};
    if (request->carry == 0) {
        return coxi_store_restore(tenant->store, request);
    }
    int r = coxi_carry_begin(tenant->incoming, &request->session, request->carry,
                             check_client, &watched);
    if (r == COX_EAGAIN) { /* the client gives what the ps lacks once more */
        return coxi_error(COX_EPSLOST, "%s", coxi_error_text());
    }
    if (r == 0) {
        r = coxi_carry_source(tenant->incoming, request->bytes, &source);
    }
    return r == 0 ? coxi_store_restore_from(tenant->store, request, &source) : r;
}

/* Ends the carry, if there is one; the error's text stays as it is. */
static void end_carry(struct coxi_carry *carry, const struct coxi_session *session,
                      uint64_t id, int code)
{
    char text[COXI_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    if (id != 0) {
        coxi_carry_end(carry, session, id);
    }
    if (code != 0) {
        (void)coxi_error(code, "%s", text);
    }
}

int coxi_shards_turn(struct coxi_tenant *tenant, struct coxi_link *link,
                     const struct coxi_message *request, const struct coxi_frame *frame)
{
    const struct coxi_exchange *turn = &request->exchange;
    int r = coxi_store_belongs(tenant->store, &turn->session, turn->incarnation);
    if (r != 0) {
        return send_status(link, request, r);
    }
    coxi_carry_turn(turn->restores ? tenant->incoming : tenant->outgoing, link, request,
                    frame->payload, frame->payload_len);
    return 0;
}

int coxi_shards_load(struct coxi_tenant *tenant, struct coxi_link *link,
                     const struct coxi_message *request, const struct coxi_frame *frame)
{
    return send_status(link, request,
                       coxi_store_load(tenant->store, &request->load, frame->payload,
                                       frame->payload_len));
}

/* ---- requests */

static void do_snapshot(struct coxi_tenant *tenant, struct coxi_link *link,
                        const struct coxi_message *request)
{
    struct coxi_message answer = {.request = request->request,
                                  .kind = COXI_SNAPSHOT_DONE};
    struct coxi_snapshot_file file = {0};
    int r = coxi_store_meant(tenant->store, request->snapshot.incarnation);
    if (r == 0) {
        r = coxi_places_check_shard(request->snapshot.path, tenant->ps_index, true);
    }
    if (r == 0) {
        r = take_snapshot(tenant, &request->snapshot, &file);
    }
    end_carry(tenant->outgoing, &request->snapshot.session, request->snapshot.carry, r);
    answer.snapshot_done = (struct coxi_snapshot_done){
        .code = r,
        .message = r != 0 ? coxi_error_text() : "",
        .bytes = file.bytes,
        .crc32 = file.crc32,
        .watermark = file.applied.watermark,
        .applied = file.applied.intervals,
        .n_applied = file.applied.n_intervals,
        .touched = file.applied.touched,
        .n_touched = file.applied.n_touched,
        .held_us_max = file.held_us_max,
        .saved_bytes = file.saved_bytes,
        .base = file.base,
    };
    if (!coxi_message_fits(&answer)) {
        r = coxi_error(
            COX_ELIMIT,
            "ps %u has applied too much above its watermark to tell the client "
            "which: %zu intervals of closures, and %zu ps that they touched",
            tenant->ps_index, file.applied.n_intervals, file.applied.n_touched);
        answer.snapshot_done =
            (struct coxi_snapshot_done){.code = r, .message = coxi_error_text()};
    }
    log_snapshot(tenant, &request->snapshot, &file, r);
    (void)coxi_message_send(link, &answer, NULL, false);
    coxi_applied_list_fini(&file.applied);
}

void coxi_shards_write(void *arg, struct coxi_link *link,
                       const struct coxi_message *request)
{
    uint64_t begun_ns = coxi_trace_begin();
    coxi_trace_work_for(request->snapshot.session.run);
    do_snapshot(arg, link, request);
    coxi_trace_end_part(begun_ns, COXI_TRACE_LONG, request->kind);
    coxi_trace_work_for(0);
}

static void do_restore(struct coxi_tenant *tenant, struct coxi_link *link,
                       const struct coxi_message *request)
{
    int r = coxi_store_meant(tenant->store, request->restore.incarnation);
    if (r == 0) {
        r = coxi_places_check_shard(request->restore.path, tenant->ps_index, false);
    }
    if (r == 0) {
        r = load_shard(tenant, &request->restore);
    }
    end_carry(tenant->incoming, &request->restore.session, request->restore.carry, r);
    log_restore(tenant, &request->restore, r);
    (void)send_status(link, request, r);
}

static void do_probe(struct coxi_tenant *tenant, struct coxi_link *link,
                     const struct coxi_message *request)
{
    struct coxi_session owner;
    bool is_owners = coxi_store_owner(tenant->store, &owner) &&
                     coxi_session_equal(&owner, &request->probe.session);
    int r = is_owners
                ? coxi_places_probe(tenant->root, tenant->ps_index, &request->probe)
                : coxi_error(COX_EFENCED, "this ps serves another client");
    (void)send_status(link, request, r);
}

void coxi_shards_read(void *arg, struct coxi_link *link,
                      const struct coxi_message *request)
{
    uint64_t begun_ns = coxi_trace_begin();
    if (request->kind == COXI_PROBE) {
        coxi_trace_work_for(request->probe.session.run);
        do_probe(arg, link, request);
    } else {
        coxi_trace_work_for(request->restore.session.run);
        do_restore(arg, link, request);
    }
    coxi_trace_end_part(begun_ns, COXI_TRACE_LONG, request->kind);
    coxi_trace_work_for(0);
}
