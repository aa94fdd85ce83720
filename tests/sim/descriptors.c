/*
 * Open files of the simulated disk: their bytes, places, locks and memory. What a
 * descriptor refers to is shared by its duplicates.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/files.h"
#include "tests/sim/files_internal.h"
#include "tests/sim/sched.h"

enum { FDS_MAX = 512, FD_FIRST = 1000 };

/* An open file. */
struct opened {
    uint32_t refs;
    short lock; /* F_RDLCK, F_WRLCK, F_UNLCK */
    struct inode *inode;
    size_t at;
    char path[128];
};

struct descriptor {
    struct opened *opened;
    const struct sim_proc *proc;
};

static struct descriptor fds[FDS_MAX];

void sim_descriptors_begin(void)
{
    memset(fds, 0, sizeof(fds));
}

static struct descriptor *slot_of(int fd)
{
    int i = fd - FD_FIRST;
    return i >= 0 && i < FDS_MAX && fds[i].opened != NULL ? &fds[i] : NULL;
}

static int take_fd(struct opened *opened)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (fds[i].opened == NULL) {
            opened->refs++;
            fds[i] = (struct descriptor){opened, sim_self_proc()};
            return FD_FIRST + i;
        }
    }
    (void)fprintf(stderr, "too many open files\n");
    abort();
}

static void unlock(struct opened *opened)
{
    opened->inode->n_readers -= opened->lock == F_RDLCK;
    opened->inode->n_writers -= opened->lock == F_WRLCK;
    opened->lock = F_UNLCK;
}

static void release(struct descriptor *slot)
{
    struct opened *opened = slot->opened;
    slot->opened = NULL;
    if (--opened->refs == 0) {
        unlock(opened);
        free(opened);
    }
}

void sim_descriptors_drop(const struct sim_proc *proc)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (fds[i].opened != NULL && fds[i].proc == proc) {
            release(&fds[i]);
        }
    }
}

static int open_inode(struct inode *inode, const char *path)
{
    struct opened *opened = calloc(1, sizeof(*opened));
    opened->inode = inode;
    opened->lock = F_UNLCK;
    (void)snprintf(opened->path, sizeof(opened->path), "%s", path);
    return take_fd(opened);
}

int __wrap_open(const char *path, int flags, ...)
{
    const struct entry *entry = sim_files_find(path);
    if (entry != NULL && (flags & O_EXCL) != 0) {
        return sim_files_error(EEXIST);
    }
    if (entry == NULL && ((flags & O_CREAT) == 0 || !sim_files_has_parent(path))) {
        return sim_files_error(ENOENT);
    }
    if (entry == NULL) {
        if (sim_files_disturb("open", path) != 0) {
            return -1;
        }
        entry = sim_files_find(path); /* somebody else may have been faster */
        if (entry == NULL) {
            sim_files_add(path, sim_files_inode_new(false));
            entry = sim_files_find(path);
        }
    }
    if ((flags & O_TRUNC) != 0) {
        entry->inode->len = 0;
    }
    return open_inode(entry->inode, path);
}

int __wrap_close(int fd)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    release(slot);
    return 0;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    (void)flags;
    return open_inode(sim_files_inode_new(false), name);
}

static int set_lock(struct opened *opened, short type)
{
    const struct inode *inode = opened->inode;
    uint32_t readers = inode->n_readers - (opened->lock == F_RDLCK);
    uint32_t writers = inode->n_writers - (opened->lock == F_WRLCK);
    if ((type == F_RDLCK && writers > 0) ||
        (type == F_WRLCK && readers + writers > 0)) {
        return sim_files_error(EAGAIN);
    }
    unlock(opened);
    opened->lock = type;
    opened->inode->n_readers += type == F_RDLCK;
    opened->inode->n_writers += type == F_WRLCK;
    return 0;
}

int __wrap_fcntl(int fd, int command, ...)
{
    struct descriptor *slot = slot_of(fd);
    va_list args;
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    va_start(args, command);
    struct flock *lock =
        command == F_OFD_SETLK || command == F_OFD_GETLK ? va_arg(args, void *) : NULL;
    va_end(args);
    if (command == F_DUPFD_CLOEXEC) {
        return take_fd(slot->opened);
    }
    if (command == F_OFD_SETLK) {
        return set_lock(slot->opened, lock->l_type);
    }
    if (command == F_OFD_GETLK) {
        const struct inode *inode = slot->opened->inode;
        lock->l_type = (short)(inode->n_writers > 0   ? F_WRLCK
                               : inode->n_readers > 0 ? F_RDLCK
                                                      : F_UNLCK);
    }
    return 0;
}

/* ---- bytes */

void sim_files_make_room(struct inode *inode, size_t len)
{
    if (len > inode->room) {
        inode->room = len > 2 * inode->room ? len : 2 * inode->room;
        inode->bytes = realloc(inode->bytes, inode->room);
    }
    if (len > inode->len) {
        memset(inode->bytes + inode->len, 0, len - inode->len);
        inode->len = len;
    }
}

static size_t read_at(const struct inode *inode, void *to, size_t len, size_t at)
{
    size_t n = at < inode->len ? inode->len - at : 0;
    n = n < len ? n : len;
    if (n > 0) {
        memcpy(to, inode->bytes + at, n);
    }
    return n;
}

ssize_t __wrap_read(int fd, void *to, size_t len)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    size_t n = read_at(slot->opened->inode, to, len, slot->opened->at);
    slot->opened->at += n;
    return (ssize_t)n;
}

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t at)
{
    const struct descriptor *slot = slot_of(fd);
    return slot == NULL ? sim_files_error(EBADF)
                        : (ssize_t)read_at(slot->opened->inode, to, len, (size_t)at);
}

/* The names that read and pread have in code that was built with _FORTIFY_SOURCE. */
ssize_t __wrap___read_chk(int fd, void *to, size_t len, size_t room)
{
    (void)room;
    return __wrap_read(fd, to, len);
}

ssize_t __wrap___pread_chk(int fd, void *to, size_t len, off_t at, size_t room)
{
    (void)room;
    return __wrap_pread(fd, to, len, at);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    if (sim_files_disturb("write", slot->opened->path) != 0) {
        return -1;
    }
    sim_files_make_room(slot->opened->inode, (size_t)at + len);
    memcpy(slot->opened->inode->bytes + at, from, len);
    return (ssize_t)len;
}

ssize_t __wrap_write(int fd, const void *from, size_t len)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    ssize_t n = __wrap_pwrite(fd, from, len, (off_t)slot->opened->at);
    slot->opened->at += n > 0 ? (size_t)n : 0;
    return n;
}

int __wrap_ftruncate(int fd, off_t len)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    sim_files_make_room(slot->opened->inode, (size_t)len);
    slot->opened->inode->len = (size_t)len;
    return 0;
}

int __wrap_fsync(int fd)
{
    const struct descriptor *slot = slot_of(fd);
    return slot == NULL ? sim_files_error(EBADF)
                        : sim_files_disturb("fsync", slot->opened->path);
}

int __wrap_sync_file_range(int fd, off_t at, off_t len, unsigned flags)
{
    (void)fd;
    (void)at;
    (void)len;
    (void)flags;
    return 0;
}

/* Memory alone, a copy of a file, or the file itself if it is shared. */
void *__wrap_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from)
{
    const struct descriptor *slot = slot_of(fd);
    (void)at;
    (void)protection;
    (void)from;
    if (slot != NULL && (flags & MAP_SHARED) != 0) {
        return slot->opened->inode->bytes;
    }
    void *memory = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
    memset(memory, 0, len);
    if (slot != NULL) {
        (void)read_at(slot->opened->inode, memory, len, 0);
    }
    return memory;
}

int __wrap_munmap(void *at, size_t len)
{
    (void)at;
    (void)len;
    return 0;
}

int __wrap_madvise(void *at, size_t len, int advice)
{
    (void)at;
    (void)len;
    (void)advice;
    return 0;
}

/* ---- of paths */

int __wrap_fstat(int fd, struct stat *ret)
{
    const struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return sim_files_error(EBADF);
    }
    sim_files_describe(slot->opened->inode, ret);
    return 0;
}

int sim_files_open_directory(const char *path)
{
    const struct entry *entry = sim_files_find(path);
    if (entry == NULL || !entry->inode->is_dir) {
        return sim_files_error(entry == NULL ? ENOENT : ENOTDIR);
    }
    return open_inode(entry->inode, path);
}

const char *sim_files_path(int fd)
{
    const struct descriptor *slot = slot_of(fd);
    return slot != NULL ? slot->opened->path : NULL;
}
