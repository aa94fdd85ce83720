/*
 * Writes checkpoints: all ps write their shards at the same time, then the manifest
 * ties them together (checkpoint/manifest.h describes the layout). A checkpoint
 * that fails leaves nothing behind, unless another client has already resumed from it.
 * Then old checkpoints are deleted (checkpoint/checkpoints.h). As soon as LATEST names
 * a checkpoint it counts, and no later failure makes it fail.
 *
 * A checkpoint holds the variables that exist when it is taken. If one is created while
 * it is written, some ps may have it in their shards and others not: then the
 * checkpoint is written again.
 */
#include "coordinator/checkpoints/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/checkpoints.h"
#include "checkpoint/draft.h"
#include "checkpoint/hold.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/carrier.h"
#include "coordinator/base/event.h"
#include "coordinator/base/history.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/checkpoints/backlog.h"
#include "coordinator/checkpoints/trigger.h"
#include "coordinator/closures/round.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/variables/registry.h"
#include "net/ps_client.h"

int coxi_save_prepare(const char *dir, char **ret)
{
    char taken[PATH_MAX];
    char real[PATH_MAX];
    int r = coxi_place_take(dir, taken);
    r = r == 0 ? coxi_place_try(taken) : r;
    if (r != 0) {
        return coxi_error(r, "checkpoint directory: %s", coxi_error_text());
    }
    r = coxi_place_real(taken, real);
    if (r != 0) {
        return r == COX_ENOENT ? coxi_error(COX_EIO, "%s", coxi_error_text()) : r;
    }
    char *path = strdup(real);
    if (path == NULL) {
        return coxi_error_memory("a checkpoint directory");
    }
    *ret = path;
    return 0;
}

int coxi_save_via(const char *via, bool *ret)
{
    const char *says = via;
    if (says == NULL) {
        says = getenv("COX_CHECKPOINT_VIA"); /* NOLINT(concurrency-mt-unsafe) */
    }
    bool is_client = says != NULL && strcmp(says, "client") == 0;
    if (says != NULL && *says != '\0' && !is_client && strcmp(says, "ps") != 0) {
        return coxi_error(COX_EINVAL, "%s is '%s': it must be \"ps\" or \"client\"",
                          via == NULL ? "COX_CHECKPOINT_VIA" : "checkpoint_via", says);
    }
    *ret = is_client;
    return 0;
}

static void take_shard(void *arg, const struct coxi_message *answer)
{
    struct coxi_manifest_shard *shard = arg;
    const struct coxi_snapshot_done *done = &answer->snapshot_done;
    shard->bytes = done->bytes;
    shard->crc32 = done->crc32;
    shard->base = done->base;
    (void)coxi_applied_list_copy(done->watermark, done->applied, done->n_applied,
                                 done->touched, done->n_touched, &shard->applied);
}

/* The shards of a checkpoint that are being written. */
struct shards {
    struct cox_coordinator *c;
    const char *dir;
    struct coxi_manifest *manifest;
    struct coxi_ps_round round;
    struct coxi_ps_round_call *calls;
    struct coxi_carrier **carriers; /* of shards that go through the client */
};

/* Starts to fetch the shard of ps `i`, for which the Snapshot will ask. */
static int fetch(struct shards *shards, uint32_t i,
                 const struct coxi_snapshot *snapshot)
{
    const struct coxi_carrying carrying = {.psc = shards->c->ps.clients[i],
                                           .session = snapshot->session,
                                           .incarnation = snapshot->incarnation,
                                           .id = snapshot->carry};
    return coxi_carrier_start_fetch(&carrying, snapshot->path,
                                    &shards->c->saving.leaves_disk,
                                    &shards->carriers[i]);
}

static int ask_for_shard(struct shards *shards, uint32_t i)
{
    struct cox_coordinator *c = shards->c;
    struct coxi_manifest_shard *shard = &shards->manifest->shards[i];
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    char path[PATH_MAX];
    coxi_manifest_file(i, c->ps.n, shard->file);
    int r = coxi_path(path, "%s/%s", shards->dir, shard->file);
    if (r != 0) {
        return r;
    }
    message.snapshot =
        (struct coxi_snapshot){.session = c->session,
                               .number = shards->manifest->number,
                               .path = path,
                               .base = shards->manifest->base,
                               .track = c->options.checkpoint_incremental > 0,
                               .incarnation = coxi_psc_incarnation(c->ps.clients[i])};
    if (c->saving.via_client) {
        message.snapshot.carry = 1 + atomic_fetch_add(&c->saving.n_carries, 1);
        r = fetch(shards, i, &message.snapshot);
    }
    if (r == 0) {
        shards->calls[i] = (struct coxi_ps_round_call){
            .expect = COXI_SNAPSHOT_DONE, .take = take_shard, .arg = shard};
        coxi_ps_round_add(&shards->round, c->ps.clients[i], &message,
                          &shards->calls[i]);
    }
    return r;
}

/*
 * Waits for the shards that are being fetched; `code` and the error text: what the ps
 * have said. If this client could not write a shard, that is the error. COX_EAGAIN of a ps
 * says only that its carry is over, not why.
 */
static int end_fetches(const struct shards *shards, int code)
{
    char text[COXI_ERROR_TEXT_MAX];
    bool is_own = false;
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    for (uint32_t i = 0; i < shards->c->ps.n; i++) {
        const struct coxi_manifest_shard *shard = &shards->manifest->shards[i];
        const struct coxi_fetched sent = {shard->bytes, shard->crc32};
        int r = coxi_carrier_end(shards->carriers[i], code == 0 ? &sent : NULL);
        if (!is_own &&
            (r == COX_EIO || (r != 0 && (code == 0 || code == COX_EAGAIN)))) {
            is_own = true;
            code = r;
            (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        }
    }
    return code == 0 ? 0 : coxi_error(code, "%s", text);
}

/* Asks every ps for its shard, all at the same time. */
static int ask_for_shards(struct shards *shards)
{
    char text[COXI_ERROR_TEXT_MAX];
    int r = 0;
    coxi_ps_round_begin(&shards->round);
    for (uint32_t i = 0; r == 0 && i < shards->c->ps.n; i++) {
        r = ask_for_shard(shards, i);
    }
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    int answer = coxi_ps_round_end(&shards->round);
    return end_fetches(shards, r != 0 ? coxi_error(r, "%s", text) : answer);
}

/* Lets every ps write its shard, or fetches the shards. */
static int write_shards(struct cox_coordinator *c, const char *dir,
                        struct coxi_manifest *manifest)
{
    struct shards shards = {.c = c, .dir = dir, .manifest = manifest};
    shards.calls = calloc(c->ps.n, sizeof(*shards.calls));
    shards.carriers = calloc(c->ps.n, sizeof(*shards.carriers));
    int r = shards.calls == NULL || shards.carriers == NULL
                ? coxi_error_memory("a checkpoint")
                : ask_for_shards(&shards);
    free(shards.calls);
    free(shards.carriers);
    for (uint32_t i = 0; r == 0 && i < c->ps.n; i++) {
        r = manifest->shards[i].applied.intervals == NULL
                ? coxi_error_memory("a checkpoint")
                : 0;
    }
    return r;
}

/* Lists the existing variables, before any ps takes its snapshot, so that every
 * snapshot has all of them. */
static int list_variables(struct cox_coordinator *c, struct coxi_manifest *manifest)
{
    coxi_lock(&c->lock);
    manifest->variables = calloc(c->registry->n_entries + 1, sizeof(void *));
    for (uint32_t i = 0; manifest->variables != NULL && i < c->registry->n_entries;
         i++) {
        const struct coxi_entry *entry = c->registry->entries[i];
        manifest->variables[i] = entry->made ? entry->description : NULL;
    }
    manifest->n_variables = c->registry->n_entries;
    coxi_unlock(&c->lock);
    return manifest->variables == NULL ? coxi_error_memory("a checkpoint") : 0;
}

/* Fills in the rest of the manifest. Call it only after the last ps's snapshot
 * (docs/exactly-once.md, rule 10). */
static void describe(struct cox_coordinator *c, struct coxi_manifest *manifest)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    manifest->time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    manifest->session = c->session;
    coxi_lock(&c->lock);
    manifest->next_closure = c->ids.next;
    manifest->first_closure = atomic_load(&c->ids.first_closure);
    manifest->steps_before = atomic_load(&c->ids.steps_before);
    coxi_unlock(&c->lock);
}

/* True if there are more variables than were listed: closures that use the new ones may
 * have reached some ps before their snapshot. */
static bool has_more_variables(struct cox_coordinator *c,
                               const struct coxi_manifest *manifest)
{
    coxi_lock(&c->lock);
    bool more = false;
    for (uint32_t i = 0; i < c->registry->n_entries; i++) {
        bool listed = i < manifest->n_variables && manifest->variables[i] != NULL;
        more = more || (c->registry->entries[i]->made && !listed);
    }
    coxi_unlock(&c->lock);
    return more;
}

/* The checkpoint on which the next one builds; 0: the next one is whole. */
static uint64_t choose_base(const struct cox_coordinator *c, bool full)
{
    return full || c->saving.n_built >= c->options.checkpoint_incremental
               ? 0
               : c->saving.last;
}

/* Clears the base if no shard builds on it: a ps that does not know what has changed
 * (because it was restored, say) has written everything. */
static void settle_base(struct coxi_manifest *manifest)
{
    bool builds = false;
    for (uint32_t i = 0; i < manifest->n_shards; i++) {
        builds = builds || manifest->shards[i].base != 0;
    }
    manifest->base = builds ? manifest->base : 0;
}

static int write_checkpoint(struct cox_coordinator *c, struct coxi_draft *draft,
                            const struct coxi_recovery_mark *mark,
                            struct coxi_manifest *manifest)
{
    int r = list_variables(c, manifest);
    if (r == 0) {
        r = write_shards(c, draft->path, manifest);
    }
    if (r == 0 && has_more_variables(c, manifest)) {
        return coxi_error(COX_EAGAIN,
                          "variables were created while checkpoint %" PRIu64
                          " was written: take it again",
                          manifest->number);
    }
    if (r == 0) {
        r = coxi_backlog_collect(c, draft->path, mark, manifest);
    }
    coxi_rounds_go_on(c);
    if (r == 0) {
        settle_base(manifest);
        describe(c, manifest);
        r = coxi_draft_publish(draft, manifest);
    }
    return r;
}

/*
 * The checkpoint is durable, so it counts, even if a later step fails. If the ps cannot
 * be restored from it, they are still restored from the one before it (which is locked,
 * so nobody deletes it), and the replay log keeps its entries: the next checkpoint
 * mends that.
 */
static void be_restored_from(struct cox_coordinator *c, const char *path,
                             struct coxi_manifest_shard *shards,
                             const struct coxi_recovery_mark *mark)
{
    if (coxi_recovery_base(c, path, shards, mark) != 0) {
        coxi_event(
            c, COX_EVENT_CHECKPOINT_NOT_USED, COXI_OF(.checkpoint = c->saving.number),
            "%.200s is whole, but ps are restored from the one before it: %.250s", path,
            coxi_error_text());
    }
}

/* Records the checkpoint, which is complete, in the history. */
static void record(struct cox_coordinator *c, const struct coxi_manifest *manifest,
                   uint64_t begun_ms)
{
    struct coxi_history_checkpoint checkpoint = {
        .number = manifest->number,
        .closure = manifest->progress.closure,
        .seq = manifest->history_seq,
        .bytes = manifest->backlog.bytes,
        .seconds = 1e-3 * (double)(coxi_now_ms() - begun_ms)};
    for (uint32_t i = 0; i < manifest->n_shards; i++) {
        checkpoint.bytes += manifest->shards[i].bytes;
    }
    coxi_history_checkpoint(c, &checkpoint);
}

/*
 * Begins a draft under the next free number. An older client that does not know yet that it
 * was replaced may be writing a checkpoint, too: neither may remove what the other has
 * written.
 */
static int begin_draft(struct cox_coordinator *c, struct coxi_draft *ret)
{
    int r = COX_EEXIST;
    while (r == COX_EEXIST) {
        /* a checkpoint that fails uses up its number, too */
        r = coxi_draft_begin(c->saving.dir, ++c->saving.number, ret);
    }
    return r;
}

/* Writes one checkpoint. The caller holds c->saving.lock. */
static int save(struct cox_coordinator *c, const struct cox_checkpoint_options *options,
                uint64_t *ret_number)
{
    char path[PATH_MAX];
    struct coxi_draft draft;
    struct coxi_recovery_mark mark;
    struct coxi_manifest manifest = {.final = options->final != 0,
                                     .n_shards = c->ps.n,
                                     .base = choose_base(c, options->full != 0)};
    uint64_t begun_ms = coxi_now_ms();
    int r = coxi_recovery_mark(c, &mark);
    if (r != 0) {
        return r;
    }
    manifest.shards = calloc(c->ps.n, sizeof(*manifest.shards));
    if (manifest.shards == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    r = begin_draft(c, &draft);
    bool begun = r == 0;
    if (r == 0) {
        manifest.number = draft.number;
        r = coxi_path(path, "%s/ckpt-%" PRIu64, c->saving.dir, manifest.number);
    }
    if (r == 0) {
        r = write_checkpoint(c, &draft, &mark, &manifest);
    }
    if (r != 0 && begun) {
        coxi_draft_drop(&draft);
    } else if (r == 0) {
        *ret_number = manifest.number;
        c->saving.last = manifest.number;
        c->saving.bases[manifest.number % COXI_KNOWN_BASES] =
            (struct coxi_known_base){manifest.number, manifest.base};
        c->saving.n_built = manifest.base != 0 ? c->saving.n_built + 1 : 0;
        record(c, &manifest, begun_ms);
        be_restored_from(c, path, manifest.shards, &mark);
    }
    for (uint32_t i = 0; i < c->ps.n; i++) {
        coxi_applied_list_fini(&manifest.shards[i].applied);
    }
    coxi_manifest_datasets_fini(&manifest.datasets);
    free(manifest.shards);
    free(manifest.variables); /* only the list: the coordinator owns the variables */
    return r;
}

/* The same, between deterministic rounds. */
static int save_between_rounds(struct cox_coordinator *c,
                               const struct cox_checkpoint_options *options,
                               uint64_t *ret_number)
{
    int r = coxi_rounds_pause(c);
    r = r == 0 ? save(c, options, ret_number) : r;
    coxi_rounds_go_on(c);
    return r;
}

/* True if the checkpoint was given up because a variable was created or a ps was lost
 * meanwhile: it is tried again, once every ps is back. */
static bool is_given_up(struct cox_coordinator *c, int *code)
{
    return *code == COX_EAGAIN || coxi_ps_again(c, code);
}

static bool is_closing(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    bool closing = c->life.closing;
    coxi_unlock(&c->lock);
    return closing;
}

/*
 * Reports the result to the program and the operator: the first failure, then, while it
 * keeps failing, only after 10, 20, 40 ... s; and the first success after failures.
 * With c->saving.lock.
 */
static void tell(struct cox_coordinator *c, int code, uint64_t begun_ms)
{
    struct coxi_patience *fails = &c->saving.fails;
    uint64_t now = coxi_now_ms();
    unsigned long long number = c->saving.number;
    unsigned long long seconds = coxi_patience_seconds(fails, now);
    bool failed_before = fails->since_ms != 0;
    if (code == 0) {
        coxi_event(c, COX_EVENT_CHECKPOINT_SAVED,
                   COXI_OF(.checkpoint = number, .seconds = seconds,
                           .level = failed_before ? 1 + COX_EVENT_INFO : 0),
                   "checkpoint %llu is saved, in %llu ms%s", number,
                   (unsigned long long)(now - begun_ms),
                   failed_before ? ": the first since some have failed" : "");
        *fails = (struct coxi_patience){0};
    } else if (code != COX_EFENCED && code != COX_ECLOSED && !is_closing(c)) {
        bool is_loud = coxi_patience_ends(fails, now) || !failed_before;
        coxi_event(c, COX_EVENT_CHECKPOINT_FAILED,
                   COXI_OF(.checkpoint = number, .seconds = seconds, .error = code,
                           .level = is_loud ? 0 : 1 + COX_EVENT_DEBUG),
                   "checkpoint %llu cannot be saved: %.400s", number,
                   coxi_error_text());
    }
}

int coxi_save_checkpoint(struct cox_coordinator *c,
                         const struct cox_checkpoint_options *options,
                         uint64_t *ret_number)
{
    const struct coxi_retention retention = {
        c->options.checkpoint_keep, c->options.checkpoint_keep_every, c->saving.bases};
    struct coxi_saved saved;
    coxi_trigger_count(c, &saved);
    saved.final = options->final != 0;
    uint64_t begun_ms = coxi_now_ms();
    int r = coxi_check_alive(c);
    if (r != 0) {
        return r;
    }
    coxi_call_why(c, "another checkpoint is being written");
    coxi_lock(&c->saving.lock);
    coxi_call_why(c, "%s", "");
    bool failed = c->saving.fails.since_ms != 0;
    do {
        r = save_between_rounds(c, options, ret_number);
        failed = failed || r != 0;
    } while (is_given_up(c, &r));
    tell(c, r, begun_ms);
    if (r == COX_EFENCED) {
        coxi_fatal(c, r, coxi_error_text());
    }
    if (r == 0 && failed && coxi_place_in_store(c->saving.dir)) {
        /* A store that was away, and a ps that went on writing, have left drafts. */
        coxi_checkpoints_remove_unfinished(c->saving.dir, &c->session);
    }
    if (r == 0 && retention.keep > 0) {
        /* A checkpoint that cannot be deleted now (because it is being read) is tried
         * again next time. */
        (void)coxi_checkpoints_prune(c->saving.dir, &retention, false, NULL, NULL);
    } else if (r == 0) {
        coxi_hold_forget_dead(c->saving.dir);
    }
    coxi_unlock(&c->saving.lock);
    if (r == 0) {
        coxi_trigger_saved(c, &saved);
        coxi_lock(&c->lock);
        c->counts.stats.checkpoints++;
        /* there may be room in the replay log */
        (void)pthread_cond_broadcast(&c->life.room);
        coxi_unlock(&c->lock);
    }
    return r;
}

int cox_checkpoint_save(struct cox_coordinator *c,
                        const struct cox_checkpoint_options *options,
                        uint64_t *ret_number)
{
    struct cox_checkpoint_options o = COX_CHECKPOINT_OPTIONS_INIT;
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_checkpoint_save needs a coordinator");
    }
    COXI_CALL(c);
    int r = options != NULL
                ? coxi_struct_copy(&o, COXI_STRUCT_CHECKPOINT_OPTIONS, options)
                : 0;
    if (r == 0 && c->saving.dir == NULL) {
        r = coxi_error(COX_ENOENT, "no checkpoint directory: set checkpoint_dir in the "
                                   "options of cox_open");
    }
    uint64_t number = 0;
    if (r == 0) {
        coxi_disk_give_up_when(&c->saving.leaves_disk);
        r = coxi_save_checkpoint(c, &o, &number);
        coxi_disk_give_up_when(NULL);
    }
    if (r == 0 && ret_number != NULL) {
        *ret_number = number;
    }
    return r;
}
