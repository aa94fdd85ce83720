/* Checkpoints, as far as opening a coordinator and its triggers need them. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_SAVE_H
#define COXI_COORDINATOR_CHECKPOINTS_SAVE_H

#include <stdint.h>

struct cox_coordinator;
struct cox_checkpoint_options;

enum { COXI_BUILT_MAX = 1000 }; /* checkpoints that build on a whole one */

/*
 * Makes the directory if it is missing, and sees that files can be written there. *ret:
 * its absolute path, for free(). COX_EIO.
 */
int coxi_save_prepare(const char *dir, char **ret);

/*
 * Writes one and deletes those that are not to be kept any more; one at a time, others
 * wait. Blocks; any thread but the loop. Fails as cox_checkpoint_save does.
 */
int coxi_save_checkpoint(struct cox_coordinator *c,
                         const struct cox_checkpoint_options *options,
                         uint64_t *ret_number);

#endif
