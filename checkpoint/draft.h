/*
 * Drafts: checkpoints that are being written. A draft has a number that no other
 * checkpoint of its directory has or will have, and its files are not read by anybody.
 * Publishing it makes it a whole checkpoint, at once.
 *
 * In a directory, a draft is a directory with a name of its own, ckpt-<n>.tmp, and
 * publishing renames it.
 *
 * A store cannot rename. There a draft has its files in ckpt-<n>/ from the beginning, and
 * its manifest.json is a placeholder: one line, shorter than any manifest
 * (COXI_PLACEHOLDER_MAX). Publishing puts the manifest in the placeholder's place, on
 * the condition that it is still there (objects/s3.h); deleting a checkpoint, or a draft
 * that a killed client has left, first puts another placeholder there, on the same
 * condition. So a draft is published or deleted, never both, whoever is late.
 *
 * Threads: any. All functions block.
 */
#ifndef COXI_CHECKPOINT_DRAFT_H
#define COXI_CHECKPOINT_DRAFT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/manifest.h"
#include "checkpoint/stored.h"

struct coxi_draft {
    char dir[PATH_MAX];  /* of the checkpoints */
    char path[PATH_MAX]; /* where its files are written */
    uint64_t number;
    /* in a store: */
    struct coxi_stored_version version; /* of its manifest.json */
    bool is_whole;                      /* it is no draft any more */
};

/* Begins a draft. COX_EEXIST: the number is in use; COX_EIO. */
int coxi_draft_begin(const char *dir, uint64_t number, struct coxi_draft *ret);

/*
 * Gives the checkpoint its manifest and its final name, then updates LATEST. If that fails
 * it is a draft again, unless another client has claimed the directory meanwhile. Checks
 * the claim of `manifest->session` before each step: a client that has been replaced
 * publishes nothing. COX_EFENCED, COX_EIO, COX_ENOMEM.
 */
int coxi_draft_publish(struct coxi_draft *draft, const struct coxi_manifest *manifest);

/* Removes the files of a draft, as far as possible. The error text stays. */
void coxi_draft_drop(struct coxi_draft *draft);

/* Deletes a whole checkpoint. COX_EBUSY: it is being read, and stays; COX_EIO. */
int coxi_draft_delete(const char *dir, uint64_t number);

/* Removes what a client that was killed has left of that number; in a store, unless somebody
 * reads it. Only for the client that writes to the directory. */
void coxi_draft_sweep(const char *dir, uint64_t number);

#endif
