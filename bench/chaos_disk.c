/*
 * Disk errors, for coxswain-chaos: preloaded (LD_PRELOAD), it has some of the system calls
 * fail that write to files below one directory. COX_CHAOS_DISK: "<share> <seed> <directory>".
 * A write that fails has written a part of it: EIO, or ENOSPC. Any thread; no state but the
 * random numbers'.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    double share;
    char dir[PATH_MAX];
    atomic_uint_least64_t random;
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*pwrite)(int, const void *, size_t, off_t);
    int (*fsync)(int);
    int (*fdatasync)(int);
    int (*rename)(const char *, const char *);
} disk;

/* POSIX has no other way to say that this object is a function. */
#define NEXT(name) (*(void **)&disk.name = dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void prepare(void)
{
    const char *text = getenv("COX_CHAOS_DISK");
    unsigned long long seed = 0;
    NEXT(write);
    NEXT(pwrite);
    NEXT(fsync);
    NEXT(fdatasync);
    NEXT(rename);
    if (text == NULL ||
        sscanf(text, "%lf %llu %4095s", &disk.share, &seed, disk.dir) < 3) {
        disk.share = 0;
    }
    atomic_store(&disk.random, seed ^ (uint64_t)getpid() << 32);
}

/* splitmix64 (common/rand.h) */
static uint64_t draw(void)
{
    uint64_t z = atomic_fetch_add(&disk.random, UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool is_below(const char *path)
{
    size_t len = strlen(disk.dir);
    return strncmp(path, disk.dir, len) == 0 && path[len] == '/';
}

static bool fails(void)
{
    if ((double)(draw() >> 11) * 0x1p-53 >= disk.share) {
        return false;
    }
    errno = draw() % 2 == 0 ? EIO : ENOSPC;
    return true;
}

/* True where a call on this file is to fail: then errno says how. */
static bool fails_for(int fd)
{
    struct stat st;
    char link[64];
    char path[PATH_MAX];
    if (disk.share <= 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    if (len <= 0) {
        return false;
    }
    path[len] = '\0';
    return is_below(path) && fails();
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    if (fails_for(fd)) {
        int error = errno;
        (void)disk.write(fd, bytes, len / 2);
        errno = error;
        return -1;
    }
    return disk.write(fd, bytes, len);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (fails_for(fd)) {
        int error = errno;
        (void)disk.pwrite(fd, bytes, len / 2, at);
        errno = error;
        return -1;
    }
    return disk.pwrite(fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
    return pwrite(fd, bytes, len, at);
}

int fsync(int fd)
{
    return fails_for(fd) ? -1 : disk.fsync(fd);
}

int fdatasync(int fd)
{
    return fails_for(fd) ? -1 : disk.fdatasync(fd);
}

int rename(const char *from, const char *to)
{
    return disk.share > 0 && is_below(to) && fails() ? -1 : disk.rename(from, to);
}
