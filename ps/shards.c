/* See shards.h. */
#include "ps/shards.h"

#include "common/error.h"
#include "common/log.h"
#include "common/trace.h"
#include "ps/places.h"
#include "ps/tenants.h"
#include "schema/limits.h"

static void send_status(struct coxi_link *link, const struct coxi_message *request,
                        int code)
{
    struct coxi_message answer = {.request = request->request, .kind = COXI_STATUS};
    answer.status.code = code;
    answer.status.message = code != 0 ? coxi_error_text() : "";
    (void)coxi_message_send(link, &answer, NULL, false);
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
        r = coxi_store_snapshot(tenant->store, &request->snapshot, &file);
    }
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
        r = coxi_store_restore(tenant->store, &request->restore);
    }
    log_restore(tenant, &request->restore, r);
    send_status(link, request, r);
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
    send_status(link, request, r);
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
