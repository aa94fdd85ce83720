/*
 * Checks the paths of a ps's files. The client names the files, and a ps accepts only
 * names of these forms:
 *
 *     .../ckpt-7.tmp/ps-0-of-2.safetensors    a shard that is written
 *     .../ckpt-7/ps-0-of-2.safetensors        a shard that is restored
 *     .../.coxswain-probe-0123456789abcdef    a probe of the checkpoint directory, in
 *                                             a directory of the same name
 *
 * or of a store of objects (s3://..., checkpoint/place.h), where shards are written without
 * ".tmp" (checkpoint/draft.h).
 *
 * So nobody can make a ps write or read a file with another name. With
 * --checkpoint-root (common/beneath.h) the files must also lie beneath that directory, or
 * the objects beneath that URL.
 */
#ifndef COXI_PS_PLACES_H
#define COXI_PS_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/wire.h"

/* COX_EINVAL: this is not the path of a shard of this ps in a checkpoint (`unfinished`:
 * in one that is being written). Checks only the path's text. Any thread. */
int coxi_places_check_shard(const char *path, uint32_t ps_index, bool unfinished);

/* Opens the client's file beneath `root` (NULL: anywhere), and makes another file
 * beside it if the request says so. COX_EINVAL: the name is not that of a probe;
 * COX_EIO. Blocks. */
int coxi_places_probe(const char *root, uint32_t ps_index,
                      const struct coxi_probe *request);

#endif
