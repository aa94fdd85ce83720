/*
 * Directories of checkpoints: which there are, which are whole, which are kept. What a
 * directory is like is in checkpoint/manifest.h.
 *
 * Threads: any; one process at a time prunes a directory, any number read it.
 */
#ifndef COXI_CHECKPOINT_CHECKPOINTS_H
#define COXI_CHECKPOINT_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

struct coxi_listed {
    uint64_t number;
    bool
        unfinished; /* being written, being deleted, or left so by who died meanwhile */
};

/*
 * What is in a directory, by rising numbers; for free(). LATEST may not name the newest
 * yet. COX_ENOENT: there is no such directory; COX_EIO.
 */
int coxi_checkpoints_list(const char *dir, struct coxi_listed **ret, size_t *ret_n);

/*
 * The number of the newest one below `below` that is whole, or 0; checks them as loading
 * would, newest first; the error text stays as it is. And, for the error of one that cannot
 * be loaded: adds that number to its text, and returns `code`.
 */
uint64_t coxi_checkpoints_whole(const char *dir, uint64_t below);
int coxi_checkpoints_offer(int code, uint64_t older);

/*
 * Opens the checkpoint that `path` is, or the latest one in it.
 * COX_ENOENT: it is neither; the text of other errors names the next older checkpoint that
 * is complete.
 */
int coxi_checkpoint_use(const char *path, enum coxi_checkpoint_depth depth,
                        struct coxi_checkpoint **ret);

/* True where `path` is a checkpoint, not a directory of them. */
bool coxi_checkpoint_is_one(const char *path);

/* ---- retention */

struct coxi_retention {
    uint64_t keep;       /* as many of the newest; 0: all */
    uint64_t keep_every; /* and those whose number it divides; 0: none of these */
};

enum coxi_fate {
    COXI_FATE_NEWEST,  /* kept: one of the newest */
    COXI_FATE_EVERY,   /* kept: by its number */
    COXI_FATE_BASE,    /* kept: one that stays builds on it */
    COXI_FATE_READ,    /* kept: somebody has it open; the next time it may go */
    COXI_FATE_FAILED,  /* kept: it could not be deleted; the error text says why */
    COXI_FATE_DELETED, /* or would be */
};

/*
 * Deletes the complete checkpoints that are not to be kept (`dry_run`: none), and tells the
 * fate of each (`told` NULL: nobody), the newest first. What LATEST names, and what is newer,
 * stays, and so does what those build on that stay. One that is
 * being deleted has its name with ".tmp" first, so that nobody takes the rest of it for a
 * checkpoint. COX_ENOENT: there is none; COX_EFORMAT: LATEST names none; COX_EIO: one
 * could not be deleted.
 */
int coxi_checkpoints_prune(
    const char *dir, const struct coxi_retention *retention, bool dry_run,
    void (*told)(void *arg, uint64_t number, enum coxi_fate fate), void *arg);

/* Removes what was left unfinished; only who writes to the directory may. */
void coxi_checkpoints_remove_unfinished(const char *dir);

#endif
