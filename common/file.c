/* See file.h. */
#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/disk.h"
#include "common/error.h"

int coxi_path(char ret[PATH_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(ret, PATH_MAX, format, args);
    va_end(args);
    if (n < 0 || n >= PATH_MAX) {
        return coxi_error(COX_EINVAL, "the path %.64s... is longer than %d bytes", ret,
                          PATH_MAX - 1);
    }
    return 0;
}

int coxi_path_absolute(const char *path, char ret[PATH_MAX])
{
    char here[PATH_MAX];
    if (path[0] == '/') {
        return coxi_path(ret, "%s", path);
    }
    return getcwd(here, sizeof(here)) != NULL
               ? coxi_path(ret, "%s/%s", here, path)
               : coxi_error_errno(COX_EIO, "cannot tell the working directory");
}

/* ---- reading */

ssize_t coxi_fd_read(int fd, void *to, size_t room)
{
    size_t have = 0;
    ssize_t n = 1;
    while (n != 0 && have < room) {
        n = read(fd, (uint8_t *)to + have, room - have);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)have;
}

ssize_t coxi_fd_read_at(int fd, uint64_t at, void *to, size_t room)
{
    size_t have = 0;
    ssize_t n = 1;
    while (n != 0 && have < room) {
        n = pread(fd, (uint8_t *)to + have, room - have, (off_t)(at + have));
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)have;
}

static int read_all(int fd, const char *path, uint8_t *bytes, size_t len)
{
    ssize_t n = coxi_fd_read(fd, bytes, len);
    if (n < 0) {
        return coxi_error_errno(COX_EIO, "cannot read %s", path);
    }
    return (size_t)n == len
               ? 0
               : coxi_error(COX_EIO, "cannot read %s: it became shorter", path);
}

int coxi_file_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len)
{
    struct stat st;
    uint8_t *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a FIFO */
    if (fd < 0) {
        return coxi_error_errno(errno == ENOENT ? COX_ENOENT : COX_EIO,
                                "cannot read %s", path);
    }
    int r = 0;
    if (fstat(fd, &st) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot read %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        r = coxi_error(COX_EIO, "cannot read %s: not a file", path);
    } else if ((uint64_t)st.st_size > max) {
        r = coxi_error(COX_ELIMIT, "%s has %lld bytes, the limit is %zu", path,
                       (long long)st.st_size, max);
    } else if ((bytes = malloc((size_t)st.st_size + 1)) == NULL) {
        r = coxi_error_memory(path);
    } else {
        r = read_all(fd, path, bytes, (size_t)st.st_size);
    }
    (void)close(fd);
    if (r != 0) {
        free(bytes);
        return r;
    }
    bytes[st.st_size] = '\0';
    *ret = bytes;
    *ret_len = (size_t)st.st_size;
    return 0;
}

void coxi_file_last_line(const char *path, char *ret, size_t len)
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    ret[0] = '\0';
    while (file != NULL && getline(&line, &size, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(ret, len, "%s", line);
    }
    free(line);
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* ---- writing */

int coxi_fd_write(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int coxi_file_write(const char *path, const void *bytes, size_t len)
{
    char temporary[PATH_MAX];
    int r = coxi_path(temporary, "%s.%d.tmp", path, (int)getpid());
    if (r != 0) {
        return r;
    }
    /* a file left by a killed process, or placed there to trap us */
    (void)unlink(temporary);
    int fd =
        open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot write %s", temporary);
    }
    if (coxi_fd_write(fd, bytes, len) != 0 || coxi_disk_sync(fd) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", temporary);
    }
    if (close(fd) != 0 && r == 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", temporary);
    }
    if (r == 0 && rename(temporary, path) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    if (r != 0) {
        (void)unlink(temporary);
    }
    return r;
}

/* ---- directories */

static int make_one(const char *path, mode_t mode)
{
    if (mkdir(path, mode) != 0 && errno != EEXIST) {
        return coxi_error_errno(COX_EIO, "cannot make the directory %s", path);
    }
    return 0;
}

static int make_all(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    struct stat st;
    int r = coxi_path(part, "%s", path);
    for (char *slash = part; r == 0 && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        r = make_one(part, 0777);
        *slash = '/';
    }
    if (r == 0) {
        r = make_one(part, mode);
    }
    if (r == 0 && (stat(part, &st) != 0 || !S_ISDIR(st.st_mode))) {
        r = coxi_error(COX_EIO, "cannot make the directory %s: there is a file", path);
    }
    return r;
}

int coxi_directory_make(const char *path)
{
    return make_all(path, 0777);
}

int coxi_directory_own(const char *path)
{
    /* `path` itself, which may be a symbolic link that its owner can change */
    struct stat named;
    struct stat st;
    int r = make_all(path, 0700);
    if (r != 0) {
        return r;
    }
    if (lstat(path, &named) != 0 || stat(path, &st) != 0) {
        return coxi_error_errno(COX_EIO, "cannot look at the directory %s", path);
    }
    if (named.st_uid != geteuid() || st.st_uid != geteuid()) {
        return coxi_error(COX_EIO, "the directory %s belongs to another user", path);
    }
    return (st.st_mode & (S_IWGRP | S_IWOTH)) == 0
               ? 0
               : coxi_error(COX_EIO, "other users may write in the directory %s", path);
}

/* The directory for temporary directories. Its path must be short, because paths of
 * sockets are limited in length. */
static const char *temporary(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp == NULL || *tmp == '\0' || strlen(tmp) > 40 ? "/tmp" : tmp;
}

static int make_temporary(const char *name, char ret[64])
{
    (void)snprintf(ret, 64, "%s/%s", temporary(), name);
    if (mkdtemp(ret) == NULL) {
        int r = coxi_error_errno(COX_EIO, "cannot make a directory in %s", temporary());
        return coxi_error(r, "%s; TMPDIR names another place (40 bytes at most)",
                          coxi_error_text());
    }
    return 0;
}

int coxi_directory_temporary(char ret[64])
{
    return make_temporary("coxswain-XXXXXX", ret);
}

/* ---- held directories: the process that has the lock owns the directory */

#define HELD_PREFIX "coxswain-held-"

/* Locks the directory at `path`, if it is this user's and nobody has locked it; -1: not
 * locked. */
static int try_lock(const char *path)
{
    struct stat st;
    struct stat named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && stat(path, &named) == 0 &&
        named.st_ino == st.st_ino && named.st_dev == st.st_dev) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

static void remove_abandoned(void)
{
    char path[PATH_MAX];
    DIR *dir = opendir(temporary());
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, HELD_PREFIX, strlen(HELD_PREFIX)) != 0 ||
            coxi_path(path, "%s/%s", temporary(), entry->d_name) != 0) {
            continue;
        }
        int fd = try_lock(path);
        if (fd >= 0) {
            coxi_directory_remove(path);
            (void)close(fd);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

int coxi_directory_held(char ret[64], int *ret_lock)
{
    enum { TRIES = 16 };
    remove_abandoned();
    for (int i = 0; i < TRIES; i++) {
        int r = make_temporary(HELD_PREFIX "XXXXXX", ret);
        if (r != 0) {
            return r;
        }
        int fd = try_lock(ret);
        if (fd >= 0) {
            *ret_lock = fd;
            return 0;
        }
        /* another process thought that the directory was abandoned, before we locked
         * it */
        (void)rmdir(ret);
    }
    return coxi_error(COX_EIO, "cannot lock a directory in %s", temporary());
}

int coxi_directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot open the directory %s", path);
    }
    int r = coxi_disk_sync(fd) == 0
                ? 0
                : coxi_error_errno(COX_EIO, "cannot write %s to disk", path);
    (void)close(fd);
    return r;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

void coxi_directory_remove(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int coxi_program_directory(char ret[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    if (n > 0) {
        ret[n] = '\0';
        char *slash = strrchr(ret, '/');
        if (slash != NULL) {
            *slash = '\0';
            return 0;
        }
    }
    return coxi_error_errno(COX_EIO, "cannot find this program's directory");
}
