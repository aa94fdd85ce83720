/*
 * Disk errors for coxswain-chaos. Preloaded (LD_PRELOAD), this library makes some
 * system calls fail that write to files below one directory, makes all calls fail that
 * take more room while the disk is declared full, and makes each fsync take longer.
 * COX_CHAOS_DISK: "<share> <ms of an fsync> <seed> <journal> <directory>". A write that
 * fails may have written a part; the error is EIO or ENOSPC. Any thread; no state
 * except the random numbers and the journal (chaos_journal.h).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/chaos_journal.h"

static struct {
    bool on;
    double share;
    unsigned fsync_ms;
    struct chaos_journal *journal;
    char dir[PATH_MAX];
    atomic_uint_least64_t random;
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*pwrite)(int, const void *, size_t, off_t);
    int (*fsync)(int);
    int (*fdatasync)(int);
    int (*rename)(const char *, const char *);
} disk;

/* POSIX has no other way to convert this pointer to a function pointer. */
#define NEXT(name) (*(void **)&disk.name = dlsym(RTLD_NEXT, #name))

static bool map(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd >= 0 ? mmap(NULL, sizeof(*disk.journal), PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (fd >= 0) {
        (void)close(fd);
    }
    disk.journal = at != MAP_FAILED ? at : NULL;
    return at != MAP_FAILED;
}

__attribute__((constructor)) static void prepare(void)
{
    const char *text = getenv("COX_CHAOS_DISK");
    unsigned long long seed = 0;
    NEXT(write);
    NEXT(pwrite);
    NEXT(fsync);
    NEXT(fdatasync);
    NEXT(rename);
    char path[PATH_MAX];
    disk.on = text != NULL &&
              sscanf(text, "%lf %u %llu %4095s %4095s", &disk.share, &disk.fsync_ms,
                     &seed, path, disk.dir) == 5 &&
              map(path);
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

static void count(enum chaos_count what)
{
    (void)atomic_fetch_add(&disk.journal->counts[what], 1);
}

static bool fails(void)
{
    if (atomic_load(&disk.journal->disk_is_full)) {
        count(CHAOS_FULL_ERRORS);
        errno = ENOSPC;
        return true;
    }
    if ((double)(draw() >> 11) * 0x1p-53 >= disk.share) {
        return false;
    }
    count(CHAOS_DISK_ERRORS);
    errno = draw() % 2 == 0 ? EIO : ENOSPC;
    return true;
}

static bool is_ours(int fd)
{
    struct stat st;
    char link[64];
    char path[PATH_MAX];
    if (!disk.on || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    if (len <= 0) {
        return false;
    }
    path[len] = '\0';
    return is_below(path);
}

/* True if a call on this file must fail; then errno is set. */
static bool fails_for(int fd)
{
    return is_ours(fd) && fails();
}

static void linger(int fd)
{
    struct timespec rest = {disk.fsync_ms / 1000,
                            (long)(disk.fsync_ms % 1000) * 1000000};
    if (disk.fsync_ms > 0 && is_ours(fd)) {
        count(CHAOS_SLOW_FSYNCS);
        (void)nanosleep(&rest, NULL);
    }
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
    linger(fd);
    return fails_for(fd) ? -1 : disk.fsync(fd);
}

int fdatasync(int fd)
{
    linger(fd);
    return fails_for(fd) ? -1 : disk.fdatasync(fd);
}

int rename(const char *from, const char *to)
{
    return disk.on && is_below(to) && fails() ? -1 : disk.rename(from, to);
}
