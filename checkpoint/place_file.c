/* See place_internal.h: long files on disk. The kernel is asked to start writing to the disk
 * at once: otherwise the fsync at the end would wait for most of the file. */
#include "checkpoint/place_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/beneath.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"

struct file {
    int fd;
    char *root; /* or NULL */
    char *path;
};

static void file_free(struct file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    free(file->root);
    free(file->path);
    free(file);
}

static int file_new(const char *root, const char *path, struct file **ret)
{
    struct file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    file->fd = -1;
    file->root = root != NULL ? strdup(root) : NULL;
    file->path = strdup(path);
    if (file->path == NULL || (file->root == NULL) != (root == NULL)) {
        file_free(file);
        return coxi_error_memory("a checkpoint file");
    }
    *ret = file;
    return 0;
}

/* ---- a sink */

static int file_write(void *arg, uint64_t at, const void *data, size_t len)
{
    const struct file *file = arg;
    const uint8_t *from = data;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(file->fd, from + done, len - done, (off_t)(at + done));
        if (n < 0 && errno != EINTR) {
            return coxi_error_errno(COX_EIO, "cannot write %s", file->path);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    /* If the file system cannot do this, fsync does it. */
    (void)sync_file_range(file->fd, (off_t)at, (off_t)len, SYNC_FILE_RANGE_WRITE);
    return 0;
}

static void file_abandon(void *arg)
{
    struct file *file = arg;
    coxi_beneath_remove(file->root, file->path);
    file_free(file);
}

static int file_finish(void *arg)
{
    struct file *file = arg;
    if (coxi_disk_sync(file->fd) != 0) {
        int r = coxi_error_errno(COX_EIO, "cannot write %s to disk", file->path);
        file_abandon(file);
        return r;
    }
    file_free(file);
    return 0;
}

int coxi_place_file_create(const char *root, const char *path,
                           struct coxi_file_sink *ret)
{
    struct file *file;
    int r = file_new(root, path, &file);
    if (r != 0) {
        return r;
    }
    r = coxi_beneath_create(root, path, &file->fd);
    if (r != 0) {
        file_free(file);
        return r;
    }
    *ret = (struct coxi_file_sink){file_write, file_finish, file_abandon, file};
    return 0;
}

/* ---- a source */

static int file_read(void *arg, uint64_t at, void *to, size_t len)
{
    const struct file *file = arg;
    ssize_t n = coxi_fd_read_at(file->fd, at, to, len);
    if (n < 0) {
        return coxi_error_errno(COX_EIO, "cannot read %s at byte %llu", file->path,
                                (unsigned long long)at);
    }
    return (size_t)n == len
               ? 0
               : coxi_error(COX_EFORMAT,
                            "%s has no byte %llu: it was shortened while it was read",
                            file->path, (unsigned long long)at + (size_t)n);
}

int coxi_place_file_open(const char *root, const char *path, uint64_t bytes,
                         struct coxi_file_source *ret)
{
    struct stat st;
    struct file *file;
    int r = file_new(root, path, &file);
    if (r != 0) {
        return r;
    }
    r = coxi_beneath_open(root, path, &file->fd);
    if (r == 0 && fstat(file->fd, &st) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot read %s", path);
    }
    if (r == 0 && (uint64_t)st.st_size != bytes) {
        r = coxi_error(COX_EFORMAT, "%s has %lld bytes where %llu belong", path,
                       (long long)st.st_size, (unsigned long long)bytes);
    }
    if (r != 0) {
        file_free(file);
        return r;
    }
    *ret = (struct coxi_file_source){file_read, file};
    return 0;
}

int coxi_place_file_adopt(int fd, const char *path, struct coxi_file_source *ret)
{
    struct file *file;
    int r = file_new(NULL, path, &file);
    if (r != 0) {
        (void)close(fd);
        return r;
    }
    file->fd = fd;
    *ret = (struct coxi_file_source){file_read, file};
    return 0;
}

void coxi_place_file_expect(const struct coxi_file_source *source, uint64_t at,
                            uint64_t len)
{
    const struct file *file = source->arg;
    (void)posix_fadvise(file->fd, (off_t)at, (off_t)len, POSIX_FADV_WILLNEED);
}

void coxi_place_file_close(struct coxi_file_source *source)
{
    file_free(source->arg);
}

bool coxi_place_is_file(const struct coxi_file_source *source)
{
    return source->read == file_read;
}
