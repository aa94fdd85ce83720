/*
 * See files.h. A path leads to an inode by a hash of the whole path; a directory is known by
 * its own path alone. What a descriptor refers to is shared by its duplicates.
 *
 * Operations that change something take time, in which others go on; they may fail, or be
 * the last that their process begins.
 */
#include "tests/sim/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

enum { ENTRIES_MAX = 2048, FDS_MAX = 512, FD_FIRST = 1000, DEVICE = 7 };

struct inode {
    uint64_t number;
    bool is_dir;
    uint32_t n_links;
    uint32_t n_readers; /* that hold a lock of the whole file */
    uint32_t n_writers;
    uint8_t *bytes;
    size_t len;
    size_t room;
};

struct entry {
    char *path;
    uint64_t hash;
    struct inode *inode;
};

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

static struct {
    struct entry entries[ENTRIES_MAX];
    size_t n;
    struct descriptor fds[FDS_MAX];
    uint64_t n_inodes;
    int error;
    uint64_t error_until;
    uint64_t slow_ns;
    uint64_t slow_until;
    struct sim_proc *victim;
    uint64_t victim_in;
    uint64_t (*seen)(struct sim_proc *proc, const char *what, const char *path);
} disk;

/* ---- names */

static uint64_t hash_of(const char *path, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)path[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static struct entry *find_part(const char *path, size_t len)
{
    uint64_t hash = hash_of(path, len);
    for (size_t i = 0; i < disk.n; i++) {
        const char *other = disk.entries[i].path;
        if (disk.entries[i].hash == hash && strncmp(other, path, len) == 0 &&
            other[len] == '\0') {
            return &disk.entries[i];
        }
    }
    return NULL;
}

static struct entry *find(const char *path)
{
    return find_part(path, strlen(path));
}

static bool has_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        return true;
    }
    const struct entry *entry = find_part(path, (size_t)(slash - path));
    return entry != NULL && entry->inode->is_dir;
}

static struct inode *inode_new(bool is_dir)
{
    struct inode *inode = calloc(1, sizeof(*inode));
    inode->number = ++disk.n_inodes;
    inode->is_dir = is_dir;
    return inode;
}

static void add(const char *path, struct inode *inode)
{
    if (disk.n == ENTRIES_MAX) {
        (void)fprintf(stderr, "too many files\n");
        abort();
    }
    disk.entries[disk.n++] =
        (struct entry){strdup(path), hash_of(path, strlen(path)), inode};
    inode->n_links++;
}

static void drop(struct entry *entry)
{
    entry->inode->n_links--;
    free(entry->path);
    *entry = disk.entries[--disk.n];
}

/* The entry lies below the directory. */
static bool is_below(const struct entry *entry, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(entry->path, dir, len) == 0 && entry->path[len] == '/';
}

static bool is_empty(const char *dir)
{
    for (size_t i = 0; i < disk.n; i++) {
        if (is_below(&disk.entries[i], dir)) {
            return false;
        }
    }
    return true;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

/* ---- what may go wrong */

/* Before something on the disk is changed. -1: it fails. */
static int disturb(const char *what, const char *path)
{
    if (sim_self() == NULL) {
        return 0;
    }
    if (disk.victim == sim_self_proc() && --disk.victim_in == 0) {
        sim_trace("disk: %s of %s is the last that %s does", what, path,
                  disk.victim->name);
        sim_proc_kill(disk.victim, 9);
    }
    bool slow =
        sim_now() < disk.slow_until && (strcmp(what, "fsync") == 0 || sim_chance(3));
    uint64_t more = disk.seen != NULL ? disk.seen(sim_self_proc(), what, path) : 0;
    sim_sleep(more + sim_below(slow ? disk.slow_ns : 20 * SIM_US));
    if (sim_now() < disk.error_until && sim_chance(2)) {
        sim_trace("disk: %s of %s fails", what, path);
        return fail(disk.error);
    }
    return 0;
}

void sim_files_fail(int error, uint64_t until)
{
    disk.error = error;
    disk.error_until = until;
}

void sim_files_slow(uint64_t slow_ns, uint64_t until)
{
    disk.slow_ns = slow_ns;
    disk.slow_until = until;
}

void sim_files_kill_at(struct sim_proc *proc, uint64_t n)
{
    disk.victim = proc;
    disk.victim_in = n;
}

void sim_files_watch(uint64_t (*seen)(struct sim_proc *proc, const char *what,
                                      const char *path))
{
    disk.seen = seen;
}

void sim_files_begin(void)
{
    memset(&disk, 0, sizeof(disk));
    add("/sim", inode_new(true));
}

/* ---- descriptors */

static struct descriptor *slot_of(int fd)
{
    int i = fd - FD_FIRST;
    return i >= 0 && i < FDS_MAX && disk.fds[i].opened != NULL ? &disk.fds[i] : NULL;
}

static int take_fd(struct opened *opened)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (disk.fds[i].opened == NULL) {
            opened->refs++;
            disk.fds[i] = (struct descriptor){opened, sim_self_proc()};
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

void sim_files_drop(const struct sim_proc *proc)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (disk.fds[i].opened != NULL && disk.fds[i].proc == proc) {
            release(&disk.fds[i]);
        }
    }
    disk.victim = disk.victim == proc ? NULL : disk.victim;
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
    const struct entry *entry = find(path);
    if (entry != NULL && (flags & O_EXCL) != 0) {
        return fail(EEXIST);
    }
    if (entry == NULL && ((flags & O_CREAT) == 0 || !has_parent(path))) {
        return fail(ENOENT);
    }
    if (entry == NULL) {
        if (disturb("open", path) != 0) {
            return -1;
        }
        entry = find(path); /* somebody else may have been faster */
        if (entry == NULL) {
            add(path, inode_new(false));
            entry = find(path);
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
        return fail(EBADF);
    }
    release(slot);
    return 0;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    (void)flags;
    return open_inode(inode_new(false), name);
}

static int set_lock(struct opened *opened, short type)
{
    const struct inode *inode = opened->inode;
    uint32_t readers = inode->n_readers - (opened->lock == F_RDLCK);
    uint32_t writers = inode->n_writers - (opened->lock == F_WRLCK);
    if ((type == F_RDLCK && writers > 0) ||
        (type == F_WRLCK && readers + writers > 0)) {
        return fail(EAGAIN);
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
        return fail(EBADF);
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

static void make_room(struct inode *inode, size_t len)
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
        return fail(EBADF);
    }
    size_t n = read_at(slot->opened->inode, to, len, slot->opened->at);
    slot->opened->at += n;
    return (ssize_t)n;
}

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t at)
{
    const struct descriptor *slot = slot_of(fd);
    return slot == NULL ? fail(EBADF)
                        : (ssize_t)read_at(slot->opened->inode, to, len, (size_t)at);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return fail(EBADF);
    }
    if (disturb("write", slot->opened->path) != 0) {
        return -1;
    }
    make_room(slot->opened->inode, (size_t)at + len);
    memcpy(slot->opened->inode->bytes + at, from, len);
    return (ssize_t)len;
}

ssize_t __wrap_write(int fd, const void *from, size_t len)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return fail(EBADF);
    }
    ssize_t n = __wrap_pwrite(fd, from, len, (off_t)slot->opened->at);
    slot->opened->at += n > 0 ? (size_t)n : 0;
    return n;
}

int __wrap_ftruncate(int fd, off_t len)
{
    struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return fail(EBADF);
    }
    make_room(slot->opened->inode, (size_t)len);
    slot->opened->inode->len = (size_t)len;
    return 0;
}

int __wrap_fsync(int fd)
{
    const struct descriptor *slot = slot_of(fd);
    return slot == NULL ? fail(EBADF) : disturb("fsync", slot->opened->path);
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

/* ---- what is at a path */

static void describe(const struct inode *inode, struct stat *ret)
{
    *ret = (struct stat){.st_dev = DEVICE,
                         .st_ino = inode->number,
                         .st_nlink = inode->n_links,
                         .st_mode = inode->is_dir ? S_IFDIR | 0777U : S_IFREG | 0644U,
                         .st_size = (off_t)inode->len};
}

int __wrap_fstat(int fd, struct stat *ret)
{
    const struct descriptor *slot = slot_of(fd);
    if (slot == NULL) {
        return fail(EBADF);
    }
    describe(slot->opened->inode, ret);
    return 0;
}

int __wrap_stat(const char *path, struct stat *ret)
{
    const struct entry *entry = find(path);
    if (entry == NULL) {
        return fail(ENOENT);
    }
    describe(entry->inode, ret);
    return 0;
}

int __wrap_access(const char *path, int mode)
{
    (void)mode;
    return find(path) != NULL ? 0 : fail(ENOENT);
}

char *__wrap_realpath(const char *path, char *ret)
{
    if (find(path) == NULL) {
        errno = ENOENT;
        return NULL;
    }
    return ret != NULL ? strcpy(ret, path) : strdup(path);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    (void)path;
    (void)mode;
    errno = ENOENT;
    return NULL;
}

/* ---- changing names */

int __wrap_mkdir(const char *path, mode_t mode)
{
    (void)mode;
    if (find(path) != NULL) {
        return fail(EEXIST);
    }
    if (!has_parent(path)) {
        return fail(ENOENT);
    }
    if (disturb("mkdir", path) != 0) {
        return -1;
    }
    if (find(path) != NULL) {
        return fail(EEXIST);
    }
    add(path, inode_new(true));
    return 0;
}

int __wrap_unlink(const char *path)
{
    if (find(path) == NULL) {
        return fail(ENOENT);
    }
    if (disturb("unlink", path) != 0) {
        return -1;
    }
    struct entry *entry = find(path);
    if (entry == NULL) {
        return fail(ENOENT);
    }
    drop(entry);
    return 0;
}

int __wrap_remove(const char *path)
{
    const struct entry *entry = find(path);
    if (entry != NULL && entry->inode->is_dir && !is_empty(path)) {
        return fail(ENOTEMPTY);
    }
    return __wrap_unlink(path);
}

int __wrap_rmdir(const char *path)
{
    return __wrap_remove(path);
}

int __wrap_link(const char *from, const char *to)
{
    if (disturb("link", to) != 0) {
        return -1;
    }
    struct entry *entry = find(from);
    if (entry == NULL || find(to) != NULL) {
        return fail(entry == NULL ? ENOENT : EEXIST);
    }
    add(to, entry->inode);
    return 0;
}

static void move(struct entry *entry, const char *path)
{
    free(entry->path);
    entry->path = strdup(path);
    entry->hash = hash_of(path, strlen(path));
}

/* What lies below a directory that is called otherwise now. */
static void move_below(const char *from, const char *to)
{
    for (size_t i = 0; i < disk.n; i++) {
        if (is_below(&disk.entries[i], from)) {
            char path[PATH_MAX];
            (void)snprintf(path, sizeof(path), "%s%s", to,
                           disk.entries[i].path + strlen(from));
            move(&disk.entries[i], path);
        }
    }
}

int __wrap_rename(const char *from, const char *to)
{
    if (disturb("rename", to) != 0) {
        return -1;
    }
    struct entry *entry = find(from);
    struct entry *old = find(to);
    if (entry == NULL || !has_parent(to)) {
        return fail(ENOENT);
    }
    if (old != NULL && old->inode->is_dir && !is_empty(to)) {
        return fail(ENOTEMPTY);
    }
    if (old != NULL && old != entry) {
        drop(old);
        entry = find(from);
    }
    bool is_dir = entry->inode->is_dir;
    move(entry, to);
    if (is_dir) {
        move_below(from, to);
    }
    return 0;
}

void sim_files_put(const char *path, const void *bytes, size_t len)
{
    struct inode *inode = inode_new(false);
    make_room(inode, len);
    memcpy(inode->bytes, bytes, len);
    add(path, inode);
}

int sim_files_open_directory(const char *path)
{
    const struct entry *entry = find(path);
    if (entry == NULL || !entry->inode->is_dir) {
        return fail(entry == NULL ? ENOENT : ENOTDIR);
    }
    return open_inode(entry->inode, path);
}

const char *sim_files_path(int fd)
{
    const struct descriptor *slot = slot_of(fd);
    return slot != NULL ? slot->opened->path : NULL;
}

size_t sim_files_list(const char *dir, char ***ret)
{
    char **paths = calloc(disk.n + 1, sizeof(*paths));
    size_t n = 0;
    for (size_t i = 0; i < disk.n; i++) {
        if (is_below(&disk.entries[i], dir) || strcmp(disk.entries[i].path, dir) == 0) {
            paths[n++] = strdup(disk.entries[i].path);
        }
    }
    *ret = paths;
    return n;
}
