/*
 * Where the files of a ps lie. The client names them, and a ps takes only names that a
 * client gives:
 *
 *     .../ckpt-7.tmp/ps-0-of-2.safetensors    a shard that is written
 *     .../ckpt-7/ps-0-of-2.safetensors        a shard that is restored
 *     .../.coxswain-probe-0123456789abcdef    a probe of the checkpoint directory
 *
 * So nobody makes a ps write or read any other file, wherever it is; and with
 * --checkpoint-root (common/beneath.h) none in any other directory.
 */
#ifndef COXI_PS_PLACES_H
#define COXI_PS_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/wire.h"

/* COX_EINVAL: the path is not that of a shard of this ps, in a checkpoint (`unfinished`:
 * in one that is being written). Looks at the path only. Any thread. */
int coxi_places_check_shard(const char *path, uint32_t ps_index, bool unfinished);

/* Opens the client's file beneath `root` (NULL: anywhere), and makes another file
 * beside it if the request says so. COX_EINVAL: the name is not that of a probe;
 * COX_EIO. Blocks. */
int coxi_places_probe(const char *root, uint32_t ps_index,
                      const struct coxi_probe *request);

#endif
