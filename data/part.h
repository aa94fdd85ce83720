/*
 * A file that is being written: it is FILE.part until it is whole. Then FILE gets its
 * bytes, or keeps those that it had.
 *
 * A part that a killed process has left is written anew. A part that another process
 * writes is left alone, and so is what is no regular file: a link, a pipe, a directory.
 */
#ifndef COXI_DATA_PART_H
#define COXI_DATA_PART_H

#include <limits.h>

#define COXI_PART_END ".part"

struct coxi_part {
    int fd; /* -1: not open */
    char path[PATH_MAX];
    char part[PATH_MAX];
};

/* Opens the part, empty. COX_EINVAL: it is no regular file, or the name is too long;
 * COX_EAGAIN: another process writes it; COX_EIO. */
int coxi_part_open(const char *path, struct coxi_part *ret);

/* The error, from errno, of a write that has failed. */
int coxi_part_cannot_write(const struct coxi_part *part);

/* Writes the part to disk, and gives it its name. Closes it in any case; after an error
 * the part is gone. COX_EIO. */
int coxi_part_finish(struct coxi_part *part);

/* Removes the part. Does nothing if it is not open. */
void coxi_part_abandon(struct coxi_part *part);

#endif
