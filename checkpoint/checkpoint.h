/*
 * A checkpoint for reading: its manifest, its open shards, and the tensors of
 * each variable put together from all ps.
 *
 * Opening fails unless the checkpoint is complete. It checks every file's size and
 * checksum; that each shard belongs to this checkpoint (run, generation, number, ps);
 * and that each variable of the manifest is there with type and shape. The files are
 * not trusted.
 *
 * The pruner does not delete an open checkpoint (checkpoint/hold.h), unless the reader's
 * credentials may not write to its store (coxi_checkpoint_is_held). From a store, shards are
 * copied into files without a name in $TMPDIR first, because readers jump about in them;
 * only readers that do not want the values read them in the store.
 *
 * Threads: any number of threads may read a checkpoint. Cost: opening reads every byte
 * once, for the checksums, and keeps none in memory. Exception: the tables of a chain
 * (checkpoint/overlay.h) are put together in memory, unless the checkpoint is opened
 * only for streaming.
 */
#ifndef COXI_CHECKPOINT_CHECKPOINT_H
#define COXI_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

/* The part of a tensor in one shard. */
struct coxi_piece {
    uint32_t ps;
    uint64_t begin; /* the number of its first row in the whole */
    const struct coxi_st_tensor *tensor;
};

/*
 * A whole: one tensor of a variable, as the pieces of all ps in the order of the rows.
 * The values of a dense variable are part "values", like a table's. A table's "keys"
 * have the same order as its values and state. "step" has one element in each piece,
 * "rate" has COXI_RATE_NUMBERS elements; some ps may have no rate.
 */
struct coxi_whole {
    const struct coxi_variable *variable;
    const char *part; /* "values", "keys", "step", or the name of a state */
    char *name;       /* "w", "w/adagrad", "t/keys", "t/values" */
    const char *dtype;
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint64_t bytes;
    struct coxi_piece *pieces;
    size_t n_pieces;
};

struct coxi_hold;

struct coxi_checkpoint {
    char path[PATH_MAX]; /* ".../ckpt-3" */
    struct coxi_hold *hold;
    struct coxi_manifest *manifest;
    struct coxi_st_file **shards; /* by ps */
    struct coxi_whole *wholes;    /* by variable: its values first, then by part */
    size_t n_wholes;
};

enum coxi_checkpoint_depth {
    /* Everything is checked: for readers that use the values */
    COXI_CHECKPOINT_CHECKED,
    /* Everything is checked: for one pass over the values, with little memory. Tables
     * of a chain are readable only by coxi_st_stream() */
    COXI_CHECKPOINT_STREAMED,
    /* Everything but the shards' checksums and the backlog is checked */
    COXI_CHECKPOINT_LISTED,
    /* The same, for lists of many checkpoints: the pruner may delete it meanwhile */
    COXI_CHECKPOINT_GLANCED,
    /* Everything is checked, and no values are read after that: to find out whether it
     * could be loaded. Copies nothing from a store */
    COXI_CHECKPOINT_PROVED,
};

/*
 * Opens the checkpoint `path` (".../ckpt-3"). COX_ENOENT: there is none,
 * or it is being deleted; COX_EIO; COX_ECHECKSUM; COX_EFORMAT. The text names the file.
 */
int coxi_checkpoint_open(const char *path, enum coxi_checkpoint_depth depth,
                         struct coxi_checkpoint **ret);
void coxi_checkpoint_close(struct coxi_checkpoint *checkpoint); /* takes NULL */

/* False: the pruner may delete the checkpoint, although it is open. */
bool coxi_checkpoint_is_held(const struct coxi_checkpoint *checkpoint);

/* Makes the same checks as opening, but goes on after a fault, and calls `fault` with a
 * text for each. Returns the code of the first fault, or 0. *ret_held (it may be NULL) is set
 * to false if the pruner could delete the checkpoint meanwhile; otherwise it is left. */
int coxi_checkpoint_verify(const char *path, void (*fault)(void *arg, const char *text),
                           void *arg, bool *ret_held);

/* Returns a part of `variable`, or NULL. `variable` must come from the checkpoint's own
 * manifest. */
const struct coxi_whole *coxi_checkpoint_find(const struct coxi_checkpoint *checkpoint,
                                              const struct coxi_variable *variable,
                                              const char *part);

/* The variable called `name`, or NULL. */
const struct coxi_variable *
coxi_checkpoint_variable(const struct coxi_checkpoint *checkpoint, const char *name);

/*
 * True if the name matches the pattern. Patterns are those of fnmatch(3), but a star
 * also matches '/'; "@(a|b*)" matches one of several. NULL matches all names.
 */
bool coxi_name_matches(const char *pattern, const char *name);

#endif
