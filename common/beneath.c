/* See beneath.h. */
#include "common/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/sync.h"

/* ---- the way beneath a root */

/* The part of the path that follows the root; NULL: the path does not begin with the
 * root. */
static const char *after(const char *root, const char *path)
{
    size_t len = strlen(root);
    while (len > 0 && root[len - 1] == '/') {
        len--;
    }
    return strncmp(path, root, len) == 0 && path[len] == '/' ? path + len : NULL;
}

static int outside(const char *root, const char *path)
{
    return coxi_error(COX_EIO, "%s does not lie beneath the checkpoint root %s", path,
                      root);
}

/* Copies the next name of the path, and moves *at past it. False: this is no name of a
 * file or directory. */
static bool next_name(const char **at, char ret[NAME_MAX + 1])
{
    *at += strspn(*at, "/");
    size_t len = strcspn(*at, "/");
    if (len == 0 || len > NAME_MAX) {
        return false;
    }
    memcpy(ret, *at, len);
    ret[len] = '\0';
    *at += len;
    return strcmp(ret, ".") != 0 && strcmp(ret, "..") != 0;
}

/* Replaces the open directory *fd by its subdirectory `name`. */
static int descend(int *fd, const char *name, const char *path)
{
    int below =
        openat(*fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (below < 0) {
        return coxi_error_errno(COX_EIO, "cannot open %s", path);
    }
    (void)close(*fd);
    *fd = below;
    return 0;
}

/* Opens the directory of the file, and copies the file's name in it. */
static int open_parent(const char *root, const char *path, int *ret_fd,
                       char ret_name[NAME_MAX + 1])
{
    char real[PATH_MAX];
    const char *at = after(root, path);
    if (at == NULL && realpath(root, real) != NULL) {
        at = after(real, path);
    }
    if (at == NULL) {
        return outside(root, path);
    }
    int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot open the checkpoint root %s", root);
    }
    int r = next_name(&at, ret_name) ? 0 : outside(root, path);
    while (r == 0 && *at != '\0') {
        r = descend(&fd, ret_name, path);
        if (r == 0 && !next_name(&at, ret_name)) {
            r = outside(root, path);
        }
    }
    if (r != 0) {
        (void)close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

/* ---- files */

enum {
    LEASE_MS =
        60000, /* the kernel takes a lease back within 45 s, if nobody set more */
    LEASE_REST_MS = 10,
};

/* Opens the file without waiting for a FIFO's other end. A process (a file server, say)
 * may hold a lease on a regular file. Then the kernel tells that process to give it up,
 * and opening fails until it has. `dir` is a directory, or AT_FDCWD. */
static int open_now(int dir, const char *name, int flags, const char *path)
{
    struct coxi_patience patience = {0};
    uint64_t until_ms = coxi_now_ms() + LEASE_MS;
    int fd;
    flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    while ((fd = dir == AT_FDCWD ? open(name, flags, 0644)
                                 : openat(dir, name, flags | O_NOFOLLOW, 0644)) < 0 &&
           errno == EWOULDBLOCK && coxi_now_ms() < until_ms) {
        if (coxi_patience_ends(&patience, coxi_now_ms())) {
            coxi_log(
                COXI_LOG_WARN, "open_waits", "path=%s seconds=%llu", path,
                (unsigned long long)coxi_patience_seconds(&patience, coxi_now_ms()));
        }
        (void)poll(NULL, 0, LEASE_REST_MS);
    }
    return fd;
}

static int open_file(const char *root, const char *path, int flags, const char *what,
                     int *ret_fd)
{
    char name[NAME_MAX + 1];
    int dir = -1;
    int r = root != NULL ? open_parent(root, path, &dir, name) : 0;
    if (r != 0) {
        return r;
    }
    int fd = root != NULL ? open_now(dir, name, flags, path)
                          : open_now(AT_FDCWD, path, flags, path);
    r = fd >= 0 ? 0 : coxi_error_errno(COX_EIO, "cannot %s %s", what, path);
    if (dir >= 0) {
        (void)close(dir);
    }
    *ret_fd = fd;
    return r;
}

int coxi_beneath_open(const char *root, const char *path, int *ret_fd)
{
    struct stat st;
    int fd = -1;
    int r = open_file(root, path, O_RDONLY, "read", &fd);
    if (r != 0) {
        return r;
    }
    if (fstat(fd, &st) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot read %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        r = coxi_error(COX_EIO, "cannot read %s: not a file", path);
    }
    if (r != 0) {
        (void)close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

int coxi_beneath_create(const char *root, const char *path, int *ret_fd)
{
    return open_file(root, path, O_WRONLY | O_CREAT | O_EXCL, "create", ret_fd);
}

void coxi_beneath_remove(const char *root, const char *path)
{
    char name[NAME_MAX + 1];
    int dir = -1;
    if (root == NULL) {
        (void)unlink(path);
    } else if (open_parent(root, path, &dir, name) == 0) {
        (void)unlinkat(dir, name, 0);
        (void)close(dir);
    }
}
