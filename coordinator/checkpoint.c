/*
 * Writing checkpoints: every ps writes its shard, then the manifest ties them together
 * (common/manifest.h has the layout on disk). Nothing of a failed one is left.
 */
#include "coordinator/checkpoint.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "common/manifest.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"

/* Permissions, read-only file systems and the like show now, not at the first
 * checkpoint. */
static int try_write(const char *dir)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s/.coxswain-write-test", dir);
    if (r == 0) {
        r = coxi_file_write(path, "", 0);
    }
    if (r == 0) {
        (void)unlink(path);
    }
    return r;
}

/* What a client that died while writing has left. */
static void remove_unfinished(const char *dir)
{
    char path[PATH_MAX];
    DIR *stream = opendir(dir);
    struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "ckpt-", 5) == 0 && len > 4 &&
            strcmp(entry->d_name + len - 4, ".tmp") == 0 &&
            coxi_path(path, "%s/%s", dir, entry->d_name) == 0) {
            coxi_directory_remove(path);
        }
    }
    if (stream != NULL) {
        (void)closedir(stream);
    }
}

int coxi_checkpoint_prepare(const char *dir, char **ret)
{
    uint64_t number;
    int r = coxi_directory_make(dir);
    if (r == 0) {
        r = try_write(dir);
    }
    if (r == 0 && coxi_latest_read(dir, &number) != COX_ENOENT) {
        r = coxi_error(
            COX_EEXIST,
            "%s holds checkpoints of another run: choose a directory of this "
            "run's own",
            dir);
    }
    if (r != 0) {
        return coxi_error(r, "checkpoint directory: %s", coxi_error_text());
    }
    remove_unfinished(dir);
    char *path = realpath(dir, NULL);
    if (path == NULL) {
        return coxi_error_errno(COX_EIO, "cannot find %s", dir);
    }
    *ret = path;
    return 0;
}

static void take_shard(void *arg, const struct coxi_message *answer)
{
    struct coxi_manifest_shard *shard = arg;
    const struct coxi_snapshot_done *done = &answer->snapshot_done;
    shard->bytes = done->bytes;
    shard->crc32 = done->crc32;
    shard->watermark = done->watermark;
    shard->applied = calloc(done->n_applied + 1, sizeof(*shard->applied));
    if (shard->applied != NULL) {
        memcpy(shard->applied, done->applied, done->n_applied * sizeof(*done->applied));
        shard->n_applied = done->n_applied;
    }
}

static int snapshot(struct cox_coordinator *c, uint32_t ps, const char *dir,
                    uint64_t number, struct coxi_manifest_shard *shard)
{
    char path[PATH_MAX];
    coxi_manifest_file(ps, c->n_ps, shard->file);
    int r = coxi_path(path, "%s/%s", dir, shard->file);
    if (r != 0) {
        return r;
    }
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    message.snapshot = (struct coxi_snapshot){c->session, number, path};
    struct coxi_psc_request request = {0};
    r = coxi_psc_call(c->ps[ps], &message, &request, COXI_SNAPSHOT_DONE, take_shard,
                      shard);
    return r == 0 && shard->applied == NULL ? coxi_error_memory("a checkpoint") : r;
}

/* The rest of the manifest, as of after the last ps's moment. */
static int describe(struct cox_coordinator *c, struct coxi_manifest *manifest)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    manifest->time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    manifest->session = c->session;
    coxi_lock(&c->lock);
    manifest->next_closure = c->next_id;
    manifest->variables = calloc(c->n_entries + 1, sizeof(void *));
    for (uint32_t i = 0; manifest->variables != NULL && i < c->n_entries; i++) {
        const struct coxi_entry *entry = c->entries[i];
        manifest->variables[i] = entry->made ? entry->description : NULL;
    }
    manifest->n_variables = c->n_entries;
    coxi_unlock(&c->lock);
    return manifest->variables == NULL ? coxi_error_memory("a checkpoint") : 0;
}

static int write_checkpoint(struct cox_coordinator *c, const char *temporary,
                            struct coxi_manifest *manifest)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->n_ps; i++) {
        r = snapshot(c, i, temporary, manifest->number, &manifest->shards[i]);
    }
    if (r == 0) {
        r = describe(c, manifest);
    }
    return r == 0 ? coxi_manifest_write(manifest, temporary) : r;
}

/* Its final name, and LATEST; on failure it has neither. */
static int publish(const char *dir, const char *temporary, uint64_t number)
{
    char path[PATH_MAX];
    uint64_t latest = 0;
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, number);
    if (r == 0 && rename(temporary, path) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot rename %s to %s", temporary, path);
    }
    if (r != 0) {
        return r;
    }
    r = coxi_directory_sync(dir);
    if (r == 0) {
        r = coxi_latest_write(dir, number);
    }
    if (r != 0 && (coxi_latest_read(dir, &latest) != 0 || latest != number)) {
        coxi_directory_remove(path);
    }
    return r;
}

static int save(struct cox_coordinator *c, bool final, uint64_t *ret_number)
{
    char temporary[PATH_MAX];
    struct coxi_manifest manifest = {.final = final, .n_shards = c->n_ps};
    manifest.number = ++c->checkpoint_number; /* one that fails has used its number */
    manifest.shards = calloc(c->n_ps, sizeof(*manifest.shards));
    if (manifest.shards == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    int r = coxi_path(temporary, "%s/ckpt-%" PRIu64 ".tmp", c->checkpoint_dir,
                      manifest.number);
    if (r == 0) {
        coxi_directory_remove(temporary); /* what a failure has left */
        r = coxi_directory_make(temporary);
    }
    if (r == 0) {
        r = write_checkpoint(c, temporary, &manifest);
    }
    if (r == 0) {
        r = publish(c->checkpoint_dir, temporary, manifest.number);
    }
    if (r != 0) {
        coxi_directory_remove(temporary);
    } else {
        *ret_number = manifest.number;
    }
    for (uint32_t i = 0; i < c->n_ps; i++) {
        free(manifest.shards[i].applied);
    }
    free(manifest.shards);
    free(manifest.variables); /* the list; the variables are the coordinator's */
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
    int r = options != NULL
                ? coxi_struct_copy(&o, sizeof(o), options, "cox_checkpoint_options")
                : 0;
    if (r == 0 && c->checkpoint_dir == NULL) {
        r = coxi_error(COX_ENOENT, "no checkpoint directory: set checkpoint_dir in the "
                                   "options of cox_open");
    }
    if (r == 0) {
        r = coxi_check_alive(c);
    }
    if (r != 0) {
        return r;
    }
    uint64_t number = 0;
    coxi_lock(&c->checkpoint_lock);
    r = save(c, o.final != 0, &number);
    coxi_unlock(&c->checkpoint_lock);
    if (r == 0 && ret_number != NULL) {
        *ret_number = number;
    }
    return r;
}
