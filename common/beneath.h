/*
 * Opens files that a peer names. A root is the directory beneath which all of them must
 * lie; NULL: they may lie anywhere.
 *
 * Beneath a root no symbolic link is followed and ".." is refused, so no path leads out
 * of it, even if the directories change meanwhile. A path must begin with the root,
 * either as the root was given or with its symbolic links resolved.
 *
 * All functions block (the disk may be slow), but they never wait for a FIFO, and for a
 * lease at most 60 s. Any thread. The texts of errors name the path. Cost: a descriptor
 * for each directory of the path.
 */
#ifndef COXI_COMMON_BENEATH_H
#define COXI_COMMON_BENEATH_H

/* Opens a regular file for reading. COX_EIO, also if the file does not lie beneath the
 * root. */
int coxi_beneath_open(const char *root, const char *path, int *ret_fd);

/* Makes a new file for writing. Fails if the name exists, and leaves that file as it
 * is. COX_EIO. */
int coxi_beneath_create(const char *root, const char *path, int *ret_fd);

/* Removes a file, if it is there and lies beneath the root. */
void coxi_beneath_remove(const char *root, const char *path);

#endif
