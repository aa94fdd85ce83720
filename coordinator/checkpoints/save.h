/* Writes checkpoints, for cox_open and for the triggers. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_SAVE_H
#define COXI_COORDINATOR_CHECKPOINTS_SAVE_H

#include <stdbool.h>
#include <stdint.h>

struct cox_coordinator;
struct cox_checkpoint_options;

enum { COXI_BUILT_MAX = 1000 }; /* incremental checkpoints on top of a whole one */

/* Makes the directory if it is missing, and checks that files can be written there.
 * *ret: its absolute path; release it with free(). COX_EIO. */
int coxi_save_prepare(const char *dir, char **ret);

/* Finds whether shards go through the client: `via`, or, if that is NULL,
 * $COX_CHECKPOINT_VIA. COX_EINVAL. */
int coxi_save_via(const char *via, bool *ret);

/*
 * Writes a checkpoint and deletes those that the options no longer keep; one at a time,
 * other callers wait. Blocks; any thread but the loop. Fails as cox_checkpoint_save
 * does.
 */
int coxi_save_checkpoint(struct cox_coordinator *c,
                         const struct cox_checkpoint_options *options,
                         uint64_t *ret_number);

#endif
