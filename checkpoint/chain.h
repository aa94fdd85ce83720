/* A chain: checkpoints that build on each other. The oldest one is whole; each later
 * one holds the changes since the one before it. */
#ifndef COXI_CHECKPOINT_CHAIN_H
#define COXI_CHECKPOINT_CHAIN_H

#include <limits.h>

#include "checkpoint/manifest.h"

enum { COXI_CHAIN_MAX = 1024 }; /* checkpoints in a chain */

struct coxi_link_of_chain {
    char path[PATH_MAX]; /* ".../ckpt-3" */
    struct coxi_manifest *manifest;
};

struct coxi_chain {
    struct coxi_link_of_chain *links; /* the newest first */
    size_t n;
};

/*
 * Reads the manifests of the checkpoint in directory `path` and of those that it builds
 * on, which lie beside it. COX_ENOENT, COX_EIO, COX_ECHECKSUM, COX_EFORMAT (a
 * checkpoint belongs to another run, or has another number of ps): the text names the
 * checkpoint that is missing or wrong, and the one that builds on it.
 */
int coxi_chain_read(const char *path, struct coxi_chain *ret);
void coxi_chain_fini(struct coxi_chain *chain); /* takes a zeroed one */

/* How many links the shard of a ps spans: links 0 to n - 1. */
size_t coxi_chain_length(const struct coxi_chain *chain, uint32_t ps);

#endif
