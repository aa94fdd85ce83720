/* See generation.h. The second client that tries a name finds it taken, and looks
 * again. */
#include "checkpoint/generation.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/listing.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

static const char prefix[] = "generation-";

enum { TRIES = 100, FILE_BYTES_MAX = 4096 };

/* ---- the names */

/* The number in a name, or 0. */
static uint64_t number_of(const char *name)
{
    const char *digits = name + sizeof(prefix) - 1;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || *digits < '1' ||
        *digits > '9') {
        return 0;
    }
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(digits, &end, 10);
    return errno == 0 && *end == '\0' ? number : 0;
}

struct looking {
    const char *dir;
    uint64_t below;
    uint64_t highest;
};

static int look_at(void *arg, const char *name)
{
    struct looking *looking = arg;
    char path[PATH_MAX];
    uint64_t number = number_of(name);
    looking->highest = number > looking->highest ? number : looking->highest;
    if (number != 0 && number < looking->below &&
        coxi_path(path, "%s/%s", looking->dir, name) == 0) {
        (void)coxi_place_remove(path);
    }
    return 0;
}

/* Finds the highest generation in the directory; removes the files of generations below
 * `below`. */
static int look(const char *dir, uint64_t below, uint64_t *ret)
{
    struct looking looking = {.dir = dir, .below = below};
    int r = coxi_place_names(dir, prefix, look_at, &looking);
    if (r != 0) {
        return r == COX_ENOENT ? coxi_error(COX_EIO, "%s", coxi_error_text()) : r;
    }
    *ret = looking.highest;
    return 0;
}

/* ---- the contents of a claim */

static int read_run(const char *dir, uint64_t generation, uint64_t *ret_run)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    int r = coxi_path(path, "%s/%s%" PRIu64, dir, prefix, generation);
    if (r == 0) {
        r = coxi_place_read(path, FILE_BYTES_MAX, &text, &len);
    }
    if (r != 0) {
        return r;
    }
    json_t *root = json_loadb((const char *)text, len, 0, NULL);
    const char *run = json_string_value(json_object_get(root, "run"));
    if (run == NULL || strlen(run) != 16 || strspn(run, "0123456789abcdef") != 16) {
        r = coxi_error(COX_EFORMAT, "%s does not name its run: remove it", path);
    } else {
        *ret_run = strtoull(run, NULL, 16);
    }
    json_decref(root);
    free(text);
    return r;
}

/* Sets the session's run to that of the newest checkpoint, for a directory that has no
 * claim yet. If there is no checkpoint, `session` stays as it is. */
static int find_run(const char *dir, struct coxi_session *session)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    char path[PATH_MAX];
    struct coxi_manifest *manifest = NULL;
    int r = coxi_checkpoints_list(dir, &all, &n);
    while (r == 0 && n > 0 && all[n - 1].unfinished) {
        n--;
    }
    if (r == 0 && n > 0) {
        r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, all[n - 1].number);
        if (r == 0) {
            r = coxi_manifest_read(path, &manifest);
        }
    }
    if (r == 0 && manifest != NULL) {
        session->run = manifest->session.run;
        session->generation = manifest->session.generation;
    }
    coxi_manifest_free(manifest);
    free(all);
    return r;
}

/* Makes the file; COX_EEXIST: another client was faster. */
static int make(const char *dir, const struct coxi_session *session)
{
    char path[PATH_MAX];
    char text[128];
    int len = snprintf(text, sizeof(text),
                       "{\"run\": \"%016" PRIx64 "\", \"token\": \"%016" PRIx64 "\"}\n",
                       session->run, session->token);
    int r = coxi_path(path, "%s/%s%" PRIu64, dir, prefix, session->generation);
    return r == 0 ? coxi_place_write_new(path, text, (size_t)len, session->token) : r;
}

static int fenced(const char *dir, uint64_t newest, uint64_t generation)
{
    return coxi_error(COX_EFENCED,
                      "another client has claimed %s: generation %" PRIu64
                      ", this one is %" PRIu64,
                      dir, newest, generation);
}

/*
 * Removes the files of older claims. There may be a newer one already: in a store a file may
 * be made long after it was asked for, when newer clients have claimed, and have removed the
 * file of that number which kept others from making it. Then this claim is withdrawn.
 */
static int settle(const char *dir, const struct coxi_session *claim)
{
    char path[PATH_MAX];
    uint64_t newest = 0;
    int r = look(dir, claim->generation, &newest);
    if (r != 0 || newest <= claim->generation) {
        return r;
    }
    if (coxi_path(path, "%s/%s%" PRIu64, dir, prefix, claim->generation) == 0) {
        (void)coxi_place_remove(path);
    }
    return fenced(dir, newest, claim->generation);
}

/* ---- claiming */

int coxi_generation_claim(const char *dir, struct coxi_session *session)
{
    int r = COX_EEXIST;
    for (int i = 0; i < TRIES && r == COX_EEXIST; i++) {
        struct coxi_session claim = {session->run, 0, session->token};
        uint64_t newest = 0;
        r = look(dir, 0, &newest);
        if (r == 0) {
            claim.generation = newest;
            r = newest > 0 ? read_run(dir, newest, &claim.run) : find_run(dir, &claim);
        }
        if (r == COX_ENOENT) {
            /* the file was removed between two looks, because a newer client has
             * claimed the directory */
            r = COX_EEXIST;
            continue;
        }
        claim.generation++;
        if (r == 0) {
            r = make(dir, &claim);
        }
        if (r == 0) {
            r = settle(dir, &claim);
            *session = r == 0 ? claim : *session;
        }
    }
    return r == COX_EEXIST
               ? coxi_error(
                     COX_EFENCED,
                     "other clients claim %s, again and again: only one may use it",
                     dir)
               : r;
}

int coxi_generation_check(const char *dir, const struct coxi_session *session)
{
    uint64_t newest = 0;
    int r = look(dir, 0, &newest);
    return r == 0 && newest > session->generation
               ? fenced(dir, newest, session->generation)
               : r;
}
