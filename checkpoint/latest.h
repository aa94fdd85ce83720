/*
 * LATEST: the file that names a directory's newest checkpoint. Any thread; each call
 * opens and closes the file.
 */
#ifndef COXI_CHECKPOINT_LATEST_H
#define COXI_CHECKPOINT_LATEST_H

#include <stdint.h>

/* The number that LATEST in `dir` names; COX_ENOENT: no checkpoint yet; COX_EFORMAT. */
int coxi_latest_read(const char *dir, uint64_t *ret_number);

/* Makes LATEST name checkpoint `number`. When this returns, the change is durable. */
int coxi_latest_write(const char *dir, uint64_t number);

#endif
