/* See source_path.h. Cost: a descriptor; the kernel reads ahead of us. */
#include "data/source_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"

struct path {
    int fd;
    char *name;
};

static int path_read(void *self, uint64_t offset, void *to, size_t len, size_t *ret_len)
{
    const struct path *path = self;
    ssize_t n =
        offset <= INT64_MAX - len ? coxi_fd_read_at(path->fd, offset, to, len) : 0;
    if (n < 0) {
        return coxi_error_errno(COX_EIO, "cannot read %s", path->name);
    }
    *ret_len = (size_t)n;
    return 0;
}

static int path_stat(void *self, struct coxi_file_mark *ret)
{
    const struct path *path = self;
    struct stat st;
    if (fstat(path->fd, &st) != 0) {
        return coxi_error_errno(COX_EIO, "cannot read %s", path->name);
    }
    ret->bytes = (uint64_t)st.st_size;
    ret->changed_ns =
        (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return 0;
}

static void path_close(void *self)
{
    struct path *path = self;
    if (path->fd >= 0) {
        (void)close(path->fd);
    }
    free(path->name);
    free(path);
}

static int path_beside(void *self, const char *end, struct coxi_source *ret)
{
    const struct path *path = self;
    char name[PATH_MAX];
    int r = coxi_path(name, "%s%s", path->name, end);
    return r == 0 ? coxi_source_open_path(name, ret) : r;
}

static const struct coxi_source_kind kind = {
    .read = path_read, .stat = path_stat, .close = path_close, .beside = path_beside};

static int open_file(struct path *path, const char *name)
{
    struct stat st;
    path->name = strdup(name);
    if (path->name == NULL) {
        return coxi_error_memory(name);
    }
    path->fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a FIFO */
    if (path->fd < 0) {
        return coxi_error_errno(errno == ENOENT ? COX_ENOENT : COX_EIO,
                                "cannot read %s", name);
    }
    if (fstat(path->fd, &st) != 0) {
        return coxi_error_errno(COX_EIO, "cannot read %s", name);
    }
    if (!S_ISREG(st.st_mode)) {
        return coxi_error(COX_EIO, "cannot read %s: not a file", name);
    }
    (void)posix_fadvise(path->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

int coxi_source_open_path(const char *path, struct coxi_source *ret)
{
    struct path *self = malloc(sizeof(*self));
    if (self == NULL) {
        return coxi_error_memory(path);
    }
    *self = (struct path){.fd = -1};
    int r = open_file(self, path);
    r = r == 0 ? coxi_source_init(&kind, self, path, ret) : r;
    if (r != 0) {
        path_close(self);
    }
    return r;
}
