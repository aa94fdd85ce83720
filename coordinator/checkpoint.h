/* Checkpoints, as far as opening a coordinator needs them. */
#ifndef COXI_COORDINATOR_CHECKPOINT_H
#define COXI_COORDINATOR_CHECKPOINT_H

/*
 * Makes the directory if it is missing, and sees that files can be written there. *ret:
 * its absolute path, for free(). COX_EIO; COX_EEXIST: another run's checkpoints are in
 * it.
 */
int coxi_checkpoint_prepare(const char *dir, char **ret);

#endif
