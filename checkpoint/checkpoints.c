/* See checkpoints.h. Blocks. Cost: one reading of the directory, and the deletions. */
#include "checkpoint/checkpoints.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/draft.h"
#include "checkpoint/generation.h"
#include "checkpoint/hold.h"
#include "checkpoint/latest.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

/* ---- complete ones */

uint64_t coxi_checkpoints_whole(const char *dir, uint64_t below)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t found = 0;
    char text[COXI_ERROR_TEXT_MAX];
    /* A reader's $TMPDIR may be full of the newer checkpoint, or be the reason. */
    enum coxi_checkpoint_depth depth =
        coxi_place_in_store(dir) ? COXI_CHECKPOINT_PROVED : COXI_CHECKPOINT_CHECKED;
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    if (coxi_checkpoints_list(dir, &all, &n) != 0) {
        n = 0;
    }
    while (n-- > 0 && found == 0) {
        char path[PATH_MAX];
        struct coxi_checkpoint *checkpoint;
        if (all[n].unfinished || all[n].number >= below ||
            coxi_path(path, "%s/ckpt-%" PRIu64, dir, all[n].number) != 0) {
            continue;
        }
        if (coxi_checkpoint_open(path, depth, &checkpoint) == 0) {
            found = all[n].number;
            coxi_checkpoint_close(checkpoint);
        }
    }
    free(all);
    (void)coxi_error(0, "%s", text); /* restores the caller's text */
    return found;
}

int coxi_checkpoints_offer(int code, uint64_t older)
{
    char text[COXI_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    return older == 0
               ? coxi_error(code, "%s; no older checkpoint is complete", text)
               : coxi_error(code, "%s; ckpt-%" PRIu64 " is complete", text, older);
}

/* True: the directory has a complete checkpoint. */
static bool has_any(const char *dir)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    bool has = false;
    int r = coxi_checkpoints_list(dir, &all, &n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        has = has || !all[i].unfinished;
    }
    free(all);
    return has;
}

int coxi_checkpoints_latest(const char *dir, uint64_t *ret)
{
    char text[COXI_ERROR_TEXT_MAX];
    int r = coxi_latest_read(dir, ret);
    if (r != COX_ENOENT) {
        return r;
    }
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    return has_any(dir) ? coxi_error(r, "%s", text)
                        : coxi_error(r, "%s is no checkpoint and holds none", dir);
}

/* ---- using one */

bool coxi_checkpoint_is_one(const char *path)
{
    char file[PATH_MAX];
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t n_digits =
        strncmp(name, "ckpt-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return (n_digits > 0 && name[5 + n_digits] == '\0') ||
           (!coxi_place_in_store(path) &&
            coxi_path(file, "%s/manifest.json", path) == 0 && access(file, F_OK) == 0);
}

/* Finds the checkpoint that `path` means: its directory and number. */
static int locate(const char *path, char ret_dir[PATH_MAX], uint64_t *ret_number)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    *ret_number = UINT64_MAX;
    if (coxi_checkpoint_is_one(path) && strncmp(name, "ckpt-", 5) == 0) {
        *ret_number = strtoull(name + 5, NULL, 10);
        return slash != NULL ? coxi_path(ret_dir, "%.*s",
                                         slash > path ? (int)(slash - path) : 1, path)
                             : coxi_path(ret_dir, ".");
    }
    int r = coxi_path(ret_dir, "%s", path);
    return r == 0 ? coxi_checkpoints_latest(path, ret_number) : r;
}

int coxi_checkpoint_use(const char *path, enum coxi_checkpoint_depth depth,
                        struct coxi_checkpoint **ret)
{
    char taken[PATH_MAX];
    char dir[PATH_MAX];
    char one[PATH_MAX];
    uint64_t number = 0;
    int r = coxi_place_take(path, taken);
    r = r == 0 ? locate(taken, dir, &number) : r;
    if (r == COX_ENOENT || r == COX_EINVAL) {
        return r;
    }
    if (r == 0) {
        r = coxi_path(one, "%s/ckpt-%" PRIu64, dir, number);
    }
    if (r == 0) {
        r = coxi_checkpoint_open(one, depth, ret);
    }
    return r == 0 ? 0 : coxi_checkpoints_offer(r, coxi_checkpoints_whole(dir, number));
}

/* ---- retention */

/* Deletes a checkpoint or, with `dry_run`, only finds out whether it could be deleted.
 * Returns the checkpoint's fate. */
static enum coxi_fate decide(const char *dir, uint64_t number, bool dry_run)
{
    char path[PATH_MAX];
    if (!dry_run) {
        int r = coxi_draft_delete(dir, number);
        return r == 0           ? COXI_FATE_DELETED
               : r == COX_EBUSY ? COXI_FATE_READ
                                : COXI_FATE_FAILED;
    }
    bool is_read = coxi_path(path, "%s/ckpt-%" PRIu64, dir, number) == 0 &&
                   coxi_hold_is_taken(path);
    return is_read ? COXI_FATE_READ : COXI_FATE_DELETED;
}

/* *ret: the number of the checkpoint on which this one builds; 0: none, or it is damaged.
 * An error: it is not known, because the manifest cannot be read now. */
static int base_of(const char *dir, uint64_t number, uint64_t *ret)
{
    char path[PATH_MAX];
    struct coxi_manifest *manifest = NULL;
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, number);
    r = r == 0 ? coxi_manifest_read(path, &manifest) : r;
    *ret = r == 0 ? manifest->base : 0;
    coxi_manifest_free(manifest);
    bool is_lost = r == COX_ENOENT || r == COX_EFORMAT || r == COX_ECHECKSUM;
    return is_lost ? 0 : r;
}

/* The state of a pruning, which looks at checkpoints from the newest to the oldest. */
struct pruning {
    const char *dir;
    const struct coxi_retention *retention;
    bool dry_run;
    uint64_t latest;
    uint64_t n_newest; /* checkpoints looked at so far, without those after `latest` */
    /* the numbers of the checkpoints that stay; is_base replaces each by the number of
     * its base */
    uint64_t *stay;
    size_t n_stay;
    /* entries of `stay` that are replaced by their bases, from the first on */
    size_t n_bases;
};

/* *ret: a checkpoint that stays builds on this one. A staying checkpoint's manifest is read
 * only when an older checkpoint is checked. */
static int find_if_base(struct pruning *p, uint64_t number, bool *ret)
{
    int r = 0;
    for (; r == 0 && p->n_bases < p->n_stay; p->n_bases += r == 0) {
        uint64_t *stays = &p->stay[p->n_bases];
        uint64_t base = 0;
        const struct coxi_known_base *known = p->retention->known;
        known = known != NULL ? &known[*stays % COXI_KNOWN_BASES] : NULL;
        if (known != NULL && known->number == *stays) {
            base = known->base;
        } else {
            r = base_of(p->dir, *stays, &base);
        }
        *stays = r == 0 ? base : *stays;
    }
    *ret = false;
    for (size_t i = 0; r == 0 && !*ret && i < p->n_stay; i++) {
        *ret = p->stay[i] == number;
    }
    return r;
}

static enum coxi_fate fate_of(struct pruning *p, uint64_t number)
{
    bool is_base = false;
    const struct coxi_retention *retention = p->retention;
    bool newest =
        number >= p->latest || retention->keep == 0 || p->n_newest < retention->keep;
    p->n_newest += number <= p->latest;
    if (newest) {
        return COXI_FATE_NEWEST;
    }
    if (retention->keep_every > 0 && number % retention->keep_every == 0) {
        return COXI_FATE_EVERY;
    }
    if (find_if_base(p, number, &is_base) != 0) {
        return COXI_FATE_FAILED;
    }
    return is_base ? COXI_FATE_BASE : decide(p->dir, number, p->dry_run);
}

int coxi_checkpoints_prune(
    const char *dir, const struct coxi_retention *retention, bool dry_run,
    void (*told)(void *arg, uint64_t number, enum coxi_fate fate), void *arg)
{
    struct pruning p = {.dir = dir, .retention = retention, .dry_run = dry_run};
    struct coxi_listed *all = NULL;
    size_t n = 0;
    char failure[COXI_ERROR_TEXT_MAX] = "";
    int r = coxi_checkpoints_latest(dir, &p.latest);
    if (r == 0 && !dry_run) {
        coxi_hold_forget_dead(dir);
    }
    if (r == 0) {
        r = coxi_checkpoints_list(dir, &all, &n);
    }
    if (r == 0) {
        p.stay = calloc(n + 1, sizeof(*p.stay));
        r = p.stay == NULL ? coxi_error_memory("a list of checkpoints") : 0;
    }
    while (r == 0 && n-- > 0) {
        uint64_t number = all[n].number;
        if (all[n].unfinished) {
            continue;
        }
        enum coxi_fate fate = fate_of(&p, number);
        if (fate == COXI_FATE_FAILED) {
            (void)snprintf(failure, sizeof(failure), "%s", coxi_error_text());
        }
        if (fate != COXI_FATE_DELETED) {
            p.stay[p.n_stay++] = number;
        }
        if (told != NULL) {
            told(arg, number, fate);
        }
    }
    free(p.stay);
    free(all);
    return failure[0] != '\0' ? coxi_error(COX_EIO, "%s", failure) : r;
}

void coxi_checkpoints_remove_unfinished(const char *dir,
                                        const struct coxi_session *session)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    int r = coxi_checkpoints_list(dir, &all, &n);
    /* Not before the list: what is in it was begun before a newer client had claimed. */
    r = r == 0 && session != NULL ? coxi_generation_check(dir, session) : r;
    if (r != 0) {
        free(all);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].unfinished) {
            coxi_draft_sweep(dir, all[i].number);
        }
    }
    free(all);
}
