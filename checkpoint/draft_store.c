/*
 * See draft_internal.h: drafts in a store. All that changes manifest.json does so on the
 * condition that its version is the one that was read or written last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/draft_internal.h"
#include "checkpoint/generation.h"
#include "checkpoint/hold.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"

static const char manifest_name[] = "manifest.json";

/* ---- placeholders */

/* A new one: no two are alike, so neither are their versions. */
static int placeholder(char ret[COXI_PLACEHOLDER_MAX])
{
    return snprintf(ret, COXI_PLACEHOLDER_MAX, "draft %016" PRIx64 "\n",
                    coxi_random_id());
}

static int manifest_of(const char *path, char ret[PATH_MAX])
{
    return coxi_path(ret, "%s/%s", path, manifest_name);
}

/* Makes a draft of what has that version. COX_ECONFLICT: it has changed. */
static int make_draft(const char *url, struct coxi_stored_version *version)
{
    char text[COXI_PLACEHOLDER_MAX];
    int len = placeholder(text);
    return coxi_stored_replace(url, text, (size_t)len, version, version);
}

/* Removes a draft's files, and the placeholder last. */
static void clear(const char *path, const char *url)
{
    if (coxi_stored_clear(path, manifest_name) == 0) {
        (void)coxi_place_remove(url);
    }
}

int coxi_draft_store_begin(struct coxi_draft *draft)
{
    char url[PATH_MAX];
    char text[COXI_PLACEHOLDER_MAX];
    int len = placeholder(text);
    int r = manifest_of(draft->path, url);
    return r == 0 ? coxi_stored_write_new(url, text, (size_t)len, &draft->version) : r;
}

/* ---- publishing */

/* The manifest takes the placeholder's place. */
static int put_manifest(struct coxi_draft *draft, const struct coxi_manifest *manifest,
                        const char *url)
{
    char *text = NULL;
    uint64_t bytes = 0;
    struct coxi_stored_version now;
    int r = coxi_manifest_text(manifest, &text);
    r = r == 0 ? coxi_generation_check(draft->dir, &manifest->session) : r;
    if (r == 0) {
        r = coxi_stored_replace(url, text, strlen(text), &draft->version,
                                &draft->version);
    }
    size_t len = text != NULL ? strlen(text) : 0;
    free(text);
    if (r == COX_ECONFLICT) {
        r = coxi_generation_check(draft->dir, &manifest->session);
        return r != 0 ? r
                      : coxi_error(COX_EIO, "another process has written to %s", url);
    }
    if (r == COX_EIO) {
        char reason[COXI_ERROR_TEXT_MAX];
        (void)snprintf(reason, sizeof(reason), "%s", coxi_error_text());
        /* It may have been written all the same: then that is what is withdrawn. */
        if (coxi_stored_look(url, &bytes, &now) == 0 && bytes == len) {
            draft->version = now;
            draft->is_whole = true;
        }
        return coxi_error(COX_EIO, "%s", reason);
    }
    draft->is_whole = r == 0;
    return r;
}

/* LATEST names the checkpoint, unless another client has written it since it was read. */
static int name_latest(const struct coxi_draft *draft,
                       const struct coxi_session *session)
{
    char url[PATH_MAX];
    char line[COXI_PLACEHOLDER_MAX];
    uint64_t bytes = 0;
    struct coxi_stored_version old;
    int len = snprintf(line, sizeof(line), "ckpt-%" PRIu64 "\n", draft->number);
    int r = coxi_path(url, "%s/LATEST", draft->dir);
    int found = r == 0 ? coxi_stored_look(url, &bytes, &old) : r;
    if (found != 0 && found != COX_ENOENT) {
        return found;
    }
    r = coxi_generation_check(draft->dir, session);
    if (r == 0) {
        r = found == 0 ? coxi_stored_replace(url, line, (size_t)len, &old, NULL)
                       : coxi_stored_write_new(url, line, (size_t)len, NULL);
    }
    if (r == COX_ECONFLICT || r == COX_EEXIST) {
        r = coxi_generation_check(draft->dir, session);
        return r != 0 ? r : coxi_error(COX_EIO, "another process has written %s", url);
    }
    return r;
}

/* True: nobody else can have the checkpoint. */
static bool is_ours(const struct coxi_draft *draft, const struct coxi_session *session)
{
    return coxi_generation_check(draft->dir, session) == 0 &&
           !coxi_hold_is_taken(draft->path);
}

/*
 * Makes it a draft again. While it was whole another client may have resumed from it: then
 * the checkpoint belongs to that client, and stays. That client may come while this is under
 * way, so this looks once more behind it, as a deletion does.
 */
static void withdraw(struct coxi_draft *draft, const struct coxi_manifest *manifest,
                     const char *url)
{
    char reason[COXI_ERROR_TEXT_MAX];
    char *text = NULL;
    const struct coxi_session *session = &manifest->session;
    (void)snprintf(reason, sizeof(reason), "%s", coxi_error_text());
    if (draft->is_whole && coxi_manifest_text(manifest, &text) == 0 &&
        is_ours(draft, session) && make_draft(url, &draft->version) == 0) {
        draft->is_whole = !is_ours(draft, session);
        if (draft->is_whole) {
            (void)coxi_stored_replace(url, text, strlen(text), &draft->version, NULL);
        }
    }
    free(text);
    (void)coxi_error(0, "%s", reason); /* restores the caller's text */
}

int coxi_draft_store_publish(struct coxi_draft *draft,
                             const struct coxi_manifest *manifest)
{
    char url[PATH_MAX];
    int r = manifest_of(draft->path, url);
    r = r == 0 ? put_manifest(draft, manifest, url) : r;
    r = r == 0 ? name_latest(draft, &manifest->session) : r;
    if (r != 0 && !coxi_draft_counts(draft)) {
        withdraw(draft, manifest, url);
    }
    return r;
}

/* ---- removing */

void coxi_draft_store_drop(struct coxi_draft *draft)
{
    char url[PATH_MAX];
    if (!draft->is_whole && manifest_of(draft->path, url) == 0 &&
        make_draft(url, &draft->version) == 0) {
        clear(draft->path, url);
    }
}

int coxi_draft_store_delete(const char *path)
{
    char url[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    struct coxi_stored_version version;
    int r = manifest_of(path, url);
    if (r == 0 && coxi_hold_is_taken(path)) {
        r = coxi_error(COX_EBUSY, "cannot delete %s: it is being read", path);
    }
    r = r == 0 ? coxi_stored_read(url, COXI_MANIFEST_BYTES_MAX, &text, &len, &version)
               : r;
    r = r == 0 ? make_draft(url, &version) : r;
    if (r == 0 && coxi_hold_is_taken(path)) { /* since the look before */
        r = coxi_stored_replace(url, text, len, &version, NULL);
        r = r == 0 ? coxi_error(COX_EBUSY, "cannot delete %s: it is being read", path)
                   : r;
    } else if (r == 0) {
        clear(path, url);
    }
    free(text);
    return r == 0 || r == COX_EBUSY
               ? r
               : coxi_error(COX_EIO, "cannot delete %s: %s", path, coxi_error_text());
}

void coxi_draft_store_sweep(const char *path)
{
    char url[PATH_MAX];
    uint64_t bytes = 0;
    struct coxi_stored_version version;
    int r = manifest_of(path, url);
    r = r == 0 ? coxi_stored_look(url, &bytes, &version) : r;
    if (r == COX_ENOENT) {
        (void)coxi_stored_clear(path, NULL);
    } else if (r == 0 && bytes <= COXI_PLACEHOLDER_MAX && !coxi_hold_is_taken(path) &&
               make_draft(url, &version) == 0) {
        /* Nobody reads a draft, unless it was whole when its reader came: then a pruner was
         * killed before it saw that reader. */
        clear(path, url);
    }
}
