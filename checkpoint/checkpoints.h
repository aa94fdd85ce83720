/*
 * Directories of checkpoints: finds complete ones, deletes old ones.
 * checkpoint/manifest.h describes such a directory.
 *
 * Threads: any. One process at a time may prune a directory, any number may read it.
 */
#ifndef COXI_CHECKPOINT_CHECKPOINTS_H
#define COXI_CHECKPOINT_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/listing.h"

/*
 * coxi_checkpoints_whole: the number of the newest complete checkpoint below `below`,
 * or 0. Checks them as loading does, newest first, and keeps the error text.
 * coxi_checkpoints_offer: adds that number to the error text of a checkpoint that
 * cannot be loaded, and returns `code`.
 */
uint64_t coxi_checkpoints_whole(const char *dir, uint64_t below);
int coxi_checkpoints_offer(int code, uint64_t older);

/* The number that LATEST names. COX_ENOENT: there is no LATEST, and the text says so only
 * if there are checkpoints; COX_EFORMAT: it names none. */
int coxi_checkpoints_latest(const char *dir, uint64_t *ret);

/*
 * Opens the checkpoint `path`, or the latest one in directory `path`. It is taken as
 * users give it (coxi_place_take). COX_ENOENT: `path` is neither; COX_EINVAL. The text of
 * other errors names the next older complete checkpoint.
 */
int coxi_checkpoint_use(const char *path, enum coxi_checkpoint_depth depth,
                        struct coxi_checkpoint **ret);

/* True if `path` is a checkpoint, not a directory of checkpoints. */
bool coxi_checkpoint_is_one(const char *path);

/* ---- retention */

enum { COXI_KNOWN_BASES = 16 };

/* A client's memory of a checkpoint that it has written: its number and its base. The
 * entry lies at number % COXI_KNOWN_BASES. */
struct coxi_known_base {
    uint64_t number;
    uint64_t base;
};

struct coxi_retention {
    uint64_t keep; /* how many of the newest checkpoints to keep; 0: all */
    /* also keep checkpoints whose number is a multiple of this; 0: none */
    uint64_t keep_every;
    /* spares reading their manifests; may be NULL */
    const struct coxi_known_base *known;
};

enum coxi_fate {
    COXI_FATE_NEWEST,  /* kept: one of the newest */
    COXI_FATE_EVERY,   /* kept: by its number */
    COXI_FATE_BASE,    /* kept: a checkpoint that stays builds on it */
    COXI_FATE_READ,    /* kept: somebody has it open; a later call may delete it */
    COXI_FATE_FAILED,  /* kept: it could not be deleted; the error text says why */
    COXI_FATE_DELETED, /* or would be, in a dry run */
};

/*
 * Deletes the complete checkpoints that `retention` does not keep (`dry_run`: deletes
 * none), and calls `told` (may be NULL) with the fate of each, the newest first. The
 * checkpoint that LATEST names and newer ones stay, and so does each checkpoint on
 * which one that stays builds. Before a checkpoint is deleted, its name gets ".tmp", so
 * that nobody takes the remaining files for a checkpoint. COX_ENOENT: there is no
 * checkpoint; COX_EFORMAT: LATEST names none; COX_EIO: one could not be deleted.
 */
int coxi_checkpoints_prune(
    const char *dir, const struct coxi_retention *retention, bool dry_run,
    void (*told)(void *arg, uint64_t number, enum coxi_fate fate), void *arg);

/*
 * Removes unfinished checkpoints, unless a newer client than that of `session` (NULL: not
 * asked) has claimed the directory: they may be its own. In a store those stay that somebody
 * reads (a pruner was killed while it deleted them). Only for the client that writes to the
 * directory.
 */
void coxi_checkpoints_remove_unfinished(const char *dir,
                                        const struct coxi_session *session);

#endif
