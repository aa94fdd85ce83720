/*
 * See part.h. The writer holds a lock on the part, which ends with its process. It checks
 * under the lock that the part still has its name: otherwise another process has finished
 * it meanwhile, and the open file is that one's whole file.
 */
#include "data/part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"

int coxi_part_cannot_write(const struct coxi_part *part)
{
    return coxi_error_errno(COX_EIO, "cannot write %s", part->part);
}

static int is_no_file(const struct coxi_part *part)
{
    return coxi_error(COX_EINVAL,
                      "%s is there, and is no regular file: remove it, or name another "
                      "output",
                      part->part);
}

/* Takes the part for this process, and empties it. */
static int claim(const struct coxi_part *part)
{
    struct stat open;
    struct stat named;
    if (fstat(part->fd, &open) != 0) {
        return coxi_part_cannot_write(part);
    }
    if (!S_ISREG(open.st_mode)) {
        return is_no_file(part);
    }
    bool locked = flock(part->fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) {
        return coxi_part_cannot_write(part);
    }
    if (!locked || lstat(part->part, &named) != 0 || named.st_ino != open.st_ino ||
        named.st_dev != open.st_dev) {
        return coxi_error(COX_EAGAIN, "%s is being written by another process",
                          part->part);
    }
    return ftruncate(part->fd, 0) == 0 ? 0 : coxi_part_cannot_write(part);
}

int coxi_part_open(const char *path, struct coxi_part *ret)
{
    struct coxi_part part = {.fd = -1};
    int r = coxi_path(part.path, "%s", path);
    r = r == 0 ? coxi_path(part.part, "%s" COXI_PART_END, path) : r;
    if (r != 0) {
        return r;
    }
    /* does not wait for readers of a pipe */
    part.fd =
        open(part.part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (part.fd < 0) {
        bool is_other = errno == ELOOP || errno == ENXIO || errno == EISDIR;
        return is_other ? is_no_file(&part) : coxi_part_cannot_write(&part);
    }
    r = claim(&part);
    if (r != 0) {
        (void)close(part.fd);
        return r;
    }
    *ret = part;
    return 0;
}

int coxi_part_finish(struct coxi_part *part)
{
    int r = fsync(part->fd) == 0 ? 0 : coxi_part_cannot_write(part);
    if (r == 0 && rename(part->part, part->path) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", part->path);
    }
    if (r != 0) {
        coxi_part_abandon(part);
        return r;
    }
    (void)close(part->fd);
    part->fd = -1;
    return 0;
}

void coxi_part_abandon(struct coxi_part *part)
{
    if (part->fd >= 0) {
        (void)unlink(part->part);
        (void)close(part->fd);
        part->fd = -1;
    }
}
