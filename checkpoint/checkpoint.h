/*
 * A checkpoint for reading: its manifest, its shards in memory maps, and what they hold of
 * each variable, whatever ps it was on.
 *
 * What is opened is whole, or opening it fails: every file's size and checksum, that each
 * shard belongs to this checkpoint (run, generation, number, ps), and that each variable
 * of the manifest is there with type and shape. The files are not trusted.
 *
 * While it is open the pruner leaves it alone: a reader holds a shared lock on the
 * manifest (an open file description lock of fcntl), which the pruner takes exclusively
 * and without waiting (checkpoint/checkpoints.h).
 *
 * Threads: a checkpoint may be read by any number of threads. Cost: opening reads every
 * byte once, for the checksums, and keeps none of them in memory. Tables of a chain
 * (checkpoint/overlay.h) then lie in memory of their own, unless the checkpoint is only streamed.
 */
#ifndef COXI_CHECKPOINT_CHECKPOINT_H
#define COXI_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

/* What one shard has of a tensor. */
struct coxi_piece {
    uint32_t ps;
    uint64_t begin; /* its first row in the whole */
    const struct coxi_st_tensor *tensor;
};

/*
 * A tensor of a variable as a whole: the pieces of all ps, in order of the rows. What a
 * dense variable holds has part "values" like a table's; a table's "keys" lie as its
 * values and its state do. "step" has an element for each piece, "rate" COXI_RATE_NUMBERS; a
 * rate need not be on every ps.
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

struct coxi_checkpoint {
    char path[PATH_MAX]; /* ".../ckpt-3" */
    int lock;            /* a descriptor, which holds it */
    struct coxi_manifest *manifest;
    struct coxi_st_file **shards; /* by ps */
    struct coxi_whole *wholes;    /* by variable: its values first, then by part */
    size_t n_wholes;
};

enum coxi_checkpoint_depth {
    COXI_CHECKPOINT_CHECKED, /* all of it: for whoever uses what it holds */
    COXI_CHECKPOINT_STREAMED, /* all of it: for whoever goes through it once, in little memory:
                                 tables of a chain come by coxi_st_stream() alone */
    COXI_CHECKPOINT_LISTED, /* but for the shards' checksums: for lists of many */
};

/*
 * Opens the checkpoint in directory `path` (".../ckpt-3"). COX_ENOENT: there is none, or
 * it is being deleted; COX_EIO; COX_ECHECKSUM; COX_EFORMAT. The text names the file.
 */
int coxi_checkpoint_open(const char *path, enum coxi_checkpoint_depth depth,
                         struct coxi_checkpoint **ret);
void coxi_checkpoint_close(struct coxi_checkpoint *checkpoint); /* takes NULL */

/*
 * Looks at all that opening looks at, and calls `fault` with a text for everything that is
 * wrong. Returns the code of the first fault, or 0.
 */
int coxi_checkpoint_verify(const char *path, void (*fault)(void *arg, const char *text),
                           void *arg);

/* That part of that variable (which is of the checkpoint's own manifest), or NULL. */
const struct coxi_whole *coxi_checkpoint_find(const struct coxi_checkpoint *checkpoint,
                                              const struct coxi_variable *variable,
                                              const char *part);

/* The variable called `name`, or NULL. */
const struct coxi_variable *
coxi_checkpoint_variable(const struct coxi_checkpoint *checkpoint, const char *name);

/*
 * True where the name matches the pattern: of fnmatch(3), where a star also matches '/';
 * "@(a|b*)" is one of several. NULL matches all.
 */
bool coxi_name_matches(const char *pattern, const char *name);

/*
 * Has the pruner leave the checkpoint in directory `path` alone until *ret, a descriptor, is
 * closed. COX_ENOENT: there is none, or it is being deleted; COX_EIO.
 */
int coxi_checkpoint_hold(const char *path, int *ret);

/* True while somebody has the checkpoint in directory `path` open. */
bool coxi_checkpoint_is_read(const char *path);

#endif
