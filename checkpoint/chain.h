/*
 * Checkpoints that build on each other: a whole one, and those that have what changed since
 * the one before.
 */
#ifndef COXI_CHECKPOINT_CHAIN_H
#define COXI_CHECKPOINT_CHAIN_H

#include <limits.h>

#include "checkpoint/manifest.h"

enum { COXI_CHAIN_MAX = 1024 }; /* checkpoints in one */

struct coxi_link_of_chain {
    char path[PATH_MAX]; /* ".../ckpt-3" */
    struct coxi_manifest *manifest;
};

struct coxi_chain {
    struct coxi_link_of_chain *links; /* the newest first */
    size_t n;
};

/*
 * The checkpoint in directory `path` and those that it builds on, which are beside it.
 * COX_ENOENT, COX_EIO, COX_ECHECKSUM, COX_EFORMAT (one is of another run, or of as many ps)
 * name the one that is missing or wrong, and the one that builds on it.
 */
int coxi_chain_read(const char *path, struct coxi_chain *ret);
void coxi_chain_fini(struct coxi_chain *chain); /* takes a zeroed one */

/* How many of the links the shard of a ps goes back to: that many from 0 on. */
size_t coxi_chain_length(const struct coxi_chain *chain, uint32_t ps);

#endif
