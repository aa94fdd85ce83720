/* See checkpoint.h; checkpoint_parts.c puts the contents of the shards together. */
#include "checkpoint/checkpoint_internal.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/backlog.h"
#include "checkpoint/hold.h"
#include "checkpoint/overlay.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

int coxi_opening_fault(struct coxi_opening *opening, int code)
{
    opening->code = opening->code != 0 ? opening->code : code;
    if (opening->fault == NULL || code == COX_ENOMEM) {
        return code;
    }
    opening->fault(opening->arg, coxi_error_text());
    return 0;
}

/* True: of the files only the headers are read. */
static bool reads_headers(enum coxi_checkpoint_depth depth)
{
    return depth == COXI_CHECKPOINT_LISTED || depth == COXI_CHECKPOINT_GLANCED;
}

/* ---- shards */

static int check_metadata(const struct coxi_st_file *shard, const char *file,
                          const char *key, const char *expected)
{
    const char *found = coxi_st_metadata(shard, key);
    if (found == NULL || strcmp(found, expected) != 0) {
        return coxi_error(COX_EFORMAT,
                          "%s belongs to another checkpoint: its %s is %s, not %s",
                          file, key, found != NULL ? found : "missing", expected);
    }
    return 0;
}

/* Checks the shard's metadata: the checkpoint to which it belongs, and the shard on
 * which it builds. */
static int check_belonging(const struct coxi_manifest *m,
                           const struct coxi_st_file *shard, uint32_t ps,
                           const char *file)
{
    char texts[5][32];
    const struct {
        const char *key;
        const char *text;
    } expected[] = {{"format", "coxswain-1"}, {"run", texts[0]},
                    {"generation", texts[1]}, {"checkpoint", texts[2]},
                    {"ps", texts[3]},         {"base", texts[4]}};
    uint64_t base = m->shards[ps].base;
    size_t n = sizeof(expected) / sizeof(*expected) - (base == 0 ? 1 : 0);
    (void)snprintf(texts[0], sizeof(texts[0]), "%016" PRIx64, m->session.run);
    (void)snprintf(texts[1], sizeof(texts[1]), "%" PRIu64, m->session.generation);
    (void)snprintf(texts[2], sizeof(texts[2]), "%" PRIu64, m->number);
    (void)snprintf(texts[3], sizeof(texts[3]), "%" PRIu32, ps);
    (void)snprintf(texts[4], sizeof(texts[4]), "%" PRIu64, base);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = check_metadata(shard, file, expected[i].key, expected[i].text);
    }
    if (r == 0 && base == 0 && coxi_st_metadata(shard, "base") != NULL) {
        r = coxi_error(COX_EFORMAT, "%s builds on another checkpoint", file);
    }
    return r;
}

/* Opens the shard of a ps in one checkpoint. */
static int open_file(const struct coxi_opening *opening,
                     const struct coxi_link_of_chain *link, uint32_t ps,
                     struct coxi_st_file **ret)
{
    const struct coxi_manifest_shard *shard = &link->manifest->shards[ps];
    bool is_listed = reads_headers(opening->depth);
    bool jumps = !is_listed && opening->depth != COXI_CHECKPOINT_PROVED;
    struct coxi_st_file *opened = NULL;
    char file[PATH_MAX];
    int r = coxi_path(file, "%s/%s", link->path, shard->file);
    if (r == 0 && jumps && coxi_place_in_store(file)) {
        r = coxi_st_open_copy(file, shard->bytes, shard->crc32, &opened);
    } else if (r == 0) {
        r = coxi_st_open(file, shard->bytes, is_listed ? NULL : &shard->crc32, &opened);
    }
    if (r == 0) {
        r = check_belonging(link->manifest, opened, ps, file);
    }
    if (r != 0) {
        coxi_st_close(opened);
        return r;
    }
    *ret = opened;
    return 0;
}

static enum coxi_overlay_rows rows_of(enum coxi_checkpoint_depth depth)
{
    switch (depth) {
    case COXI_CHECKPOINT_CHECKED:
        return COXI_OVERLAY_IN_MEMORY;
    case COXI_CHECKPOINT_STREAMED:
        return COXI_OVERLAY_STREAMED;
    case COXI_CHECKPOINT_LISTED:
    case COXI_CHECKPOINT_GLANCED:
    case COXI_CHECKPOINT_PROVED:
        break;
    }
    return COXI_OVERLAY_NEWEST;
}

/* Opens the contents of a ps: its shard or, if shards build on each other, all of them
 * as one file. */
static int open_shard(struct coxi_opening *opening, uint32_t ps)
{
    size_t n = coxi_chain_length(&opening->chain, ps);
    struct coxi_st_file **files = calloc(n, sizeof(*files));
    struct coxi_st_file **ret = &opening->checkpoint->shards[ps];
    int r = files == NULL ? coxi_error_memory("a checkpoint") : 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = open_file(opening, &opening->chain.links[i], ps, &files[n - 1 - i]);
    }
    if (r == 0 && n > 1) {
        r = coxi_overlay_open(files, n, rows_of(opening->depth), ret);
    } else if (r == 0) {
        *ret = files[0];
    }
    for (size_t i = 0; r != 0 && files != NULL && i < n; i++) {
        coxi_st_close(files[i]);
    }
    free(files);
    return r;
}

static int open_shards(struct coxi_opening *opening)
{
    struct coxi_checkpoint *checkpoint = opening->checkpoint;
    const struct coxi_manifest *m = checkpoint->manifest;
    int r = 0;
    checkpoint->shards = calloc(m->n_shards, sizeof(struct coxi_st_file *));
    if (checkpoint->shards == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (uint32_t i = 0; r == 0 && i < m->n_shards; i++) {
        r = open_shard(opening, i);
        r = r != 0 ? coxi_opening_fault(opening, r) : 0;
    }
    return r;
}

/* ---- the backlog */

static int check_backlog(struct coxi_opening *opening)
{
    const struct coxi_checkpoint *checkpoint = opening->checkpoint;
    const struct coxi_manifest_shard *backlog = &checkpoint->manifest->backlog;
    struct coxi_backlog_file *file = NULL;
    char path[PATH_MAX];
    if (backlog->bytes == 0 || reads_headers(opening->depth)) {
        return 0;
    }
    int r = coxi_path(path, "%s/%s", checkpoint->path, backlog->file);
    if (r == 0) {
        r = coxi_backlog_open(path, backlog->bytes, backlog->crc32, &file);
    }
    coxi_backlog_close(file);
    return r != 0 ? coxi_opening_fault(opening, r) : 0;
}

/* ---- opening and closing */

/* Checks that the directory's name has the checkpoint's number. If not, the directory
 * was renamed. */
static int check_number(const struct coxi_checkpoint *checkpoint)
{
    char expected[64];
    char real[PATH_MAX];
    (void)snprintf(expected, sizeof(expected), "ckpt-%" PRIu64,
                   checkpoint->manifest->number);
    int r = coxi_place_real(checkpoint->path, real);
    if (r != 0) {
        return r;
    }
    const char *name = strrchr(real, '/') + 1;
    return strcmp(name, expected) == 0
               ? 0
               : coxi_error(COX_EFORMAT, "%s/manifest.json is that of %s",
                            checkpoint->path, expected);
}

static int open_all(struct coxi_opening *opening, const char *path)
{
    struct coxi_checkpoint *checkpoint = opening->checkpoint;
    int r = coxi_path(checkpoint->path, "%s", path);
    if (r == 0 && opening->depth != COXI_CHECKPOINT_GLANCED) {
        r = coxi_hold_try(path, &checkpoint->hold);
    }
    if (r == 0) {
        r = coxi_chain_read(path, &opening->chain);
    }
    if (r == 0) { /* owned by the checkpoint from here on */
        checkpoint->manifest = opening->chain.links[0].manifest;
    }
    if (r == 0) {
        r = check_number(checkpoint);
    }
    if (r != 0) {
        (void)coxi_opening_fault(opening, r);
        return r; /* nothing else can be checked */
    }
    r = open_shards(opening);
    if (r == 0) {
        r = check_backlog(opening);
    }
    return r == 0 && opening->code == 0 ? coxi_checkpoint_join(opening) : r;
}

static int open_with(struct coxi_opening *opening, const char *path)
{
    opening->checkpoint = calloc(1, sizeof(*opening->checkpoint));
    if (opening->checkpoint == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    int r = open_all(opening, path);
    if (opening->chain.n > 0) {
        opening->chain.links[0].manifest = NULL;
    }
    coxi_chain_fini(&opening->chain);
    return r;
}

int coxi_checkpoint_open(const char *path, enum coxi_checkpoint_depth depth,
                         struct coxi_checkpoint **ret)
{
    struct coxi_opening opening = {.depth = depth};
    int r = open_with(&opening, path);
    if (r != 0) {
        coxi_checkpoint_close(opening.checkpoint);
        return r;
    }
    *ret = opening.checkpoint;
    return 0;
}

int coxi_checkpoint_verify(const char *path, void (*fault)(void *arg, const char *text),
                           void *arg, bool *ret_held)
{
    struct coxi_opening opening = {
        .depth = COXI_CHECKPOINT_STREAMED, .fault = fault, .arg = arg};
    int r = open_with(&opening, path);
    const struct coxi_checkpoint *opened = opening.checkpoint;
    if (ret_held != NULL && opened != NULL && opened->hold != NULL) {
        *ret_held = *ret_held && coxi_checkpoint_is_held(opened);
    }
    coxi_checkpoint_close(opening.checkpoint);
    return opening.code != 0 ? opening.code : r;
}

bool coxi_checkpoint_is_held(const struct coxi_checkpoint *checkpoint)
{
    return checkpoint->hold != NULL && coxi_hold_protects(checkpoint->hold);
}

void coxi_checkpoint_close(struct coxi_checkpoint *checkpoint)
{
    if (checkpoint == NULL) {
        return;
    }
    for (size_t i = 0; i < checkpoint->n_wholes; i++) {
        free(checkpoint->wholes[i].name);
        free(checkpoint->wholes[i].pieces);
    }
    for (uint32_t i = 0;
         checkpoint->shards != NULL && i < checkpoint->manifest->n_shards; i++) {
        coxi_st_close(checkpoint->shards[i]);
    }
    free(checkpoint->wholes);
    free(checkpoint->shards);
    coxi_manifest_free(checkpoint->manifest);
    coxi_hold_release(checkpoint->hold);
    free(checkpoint);
}

/* ---- looking things up */

const struct coxi_variable *
coxi_checkpoint_variable(const struct coxi_checkpoint *checkpoint, const char *name)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    for (uint32_t i = 0; i < m->n_variables; i++) {
        if (strcmp(m->variables[i]->name, name) == 0) {
            return m->variables[i];
        }
    }
    return NULL;
}

bool coxi_name_matches(const char *pattern, const char *name)
{
    return pattern == NULL || fnmatch(pattern, name, FNM_EXTMATCH) == 0;
}
