/*
 * See files.h. A hash of the whole path finds the inode; a directory exists only as a
 * path of its own. Open files are in descriptors.c.
 *
 * Operations that change the disk take time, in which other fibers go on; they may
 * fail, or be the last that their process begins.
 */
#include "tests/sim/files.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/files_internal.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

enum { ENTRIES_MAX = 2048, DEVICE = 7 };

static struct {
    struct entry entries[ENTRIES_MAX];
    size_t n;
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

struct entry *sim_files_find(const char *path)
{
    return find_part(path, strlen(path));
}

bool sim_files_has_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        return true;
    }
    const struct entry *entry = find_part(path, (size_t)(slash - path));
    return entry != NULL && entry->inode->is_dir;
}

struct inode *sim_files_inode_new(bool is_dir)
{
    struct inode *inode = calloc(1, sizeof(*inode));
    inode->number = ++disk.n_inodes;
    inode->is_dir = is_dir;
    return inode;
}

void sim_files_add(const char *path, struct inode *inode)
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

int sim_files_error(int error)
{
    errno = error;
    return -1;
}

/* ---- what may go wrong */

int sim_files_disturb(const char *what, const char *path)
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
        return sim_files_error(disk.error);
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

void sim_files_drop(const struct sim_proc *proc)
{
    sim_descriptors_drop(proc);
    disk.victim = disk.victim == proc ? NULL : disk.victim;
}

void sim_files_begin(void)
{
    sim_descriptors_begin();
    memset(&disk, 0, sizeof(disk));
    sim_files_add("/sim", sim_files_inode_new(true));
}

/* ---- what is at a path */

void sim_files_describe(const struct inode *inode, struct stat *ret)
{
    *ret = (struct stat){.st_dev = DEVICE,
                         .st_ino = inode->number,
                         .st_nlink = inode->n_links,
                         .st_mode = inode->is_dir ? S_IFDIR | 0777U : S_IFREG | 0644U,
                         .st_size = (off_t)inode->len};
}

int __wrap_stat(const char *path, struct stat *ret)
{
    const struct entry *entry = sim_files_find(path);
    if (entry == NULL) {
        return sim_files_error(ENOENT);
    }
    sim_files_describe(entry->inode, ret);
    return 0;
}

int __wrap_access(const char *path, int mode)
{
    (void)mode;
    return sim_files_find(path) != NULL ? 0 : sim_files_error(ENOENT);
}

char *__wrap_realpath(const char *path, char *ret)
{
    if (sim_files_find(path) == NULL) {
        errno = ENOENT;
        return NULL;
    }
    return ret != NULL ? strcpy(ret, path) : strdup(path);
}

char *__wrap___realpath_chk(const char *path, char *ret, size_t room)
{
    (void)room;
    return __wrap_realpath(path, ret);
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
    if (sim_files_find(path) != NULL) {
        return sim_files_error(EEXIST);
    }
    if (!sim_files_has_parent(path)) {
        return sim_files_error(ENOENT);
    }
    if (sim_files_disturb("mkdir", path) != 0) {
        return -1;
    }
    if (sim_files_find(path) != NULL) {
        return sim_files_error(EEXIST);
    }
    sim_files_add(path, sim_files_inode_new(true));
    return 0;
}

int __wrap_unlink(const char *path)
{
    if (sim_files_find(path) == NULL) {
        return sim_files_error(ENOENT);
    }
    if (sim_files_disturb("unlink", path) != 0) {
        return -1;
    }
    struct entry *entry = sim_files_find(path);
    if (entry == NULL) {
        return sim_files_error(ENOENT);
    }
    drop(entry);
    return 0;
}

int __wrap_remove(const char *path)
{
    const struct entry *entry = sim_files_find(path);
    if (entry != NULL && entry->inode->is_dir && !is_empty(path)) {
        return sim_files_error(ENOTEMPTY);
    }
    return __wrap_unlink(path);
}

int __wrap_rmdir(const char *path)
{
    return __wrap_remove(path);
}

int __wrap_link(const char *from, const char *to)
{
    if (sim_files_disturb("link", to) != 0) {
        return -1;
    }
    struct entry *entry = sim_files_find(from);
    if (entry == NULL || sim_files_find(to) != NULL) {
        return sim_files_error(entry == NULL ? ENOENT : EEXIST);
    }
    sim_files_add(to, entry->inode);
    return 0;
}

static void move(struct entry *entry, const char *path)
{
    free(entry->path);
    entry->path = strdup(path);
    entry->hash = hash_of(path, strlen(path));
}

/* Renames everything below a directory that was renamed. */
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
    if (sim_files_disturb("rename", to) != 0) {
        return -1;
    }
    struct entry *entry = sim_files_find(from);
    struct entry *old = sim_files_find(to);
    if (entry == NULL || !sim_files_has_parent(to)) {
        return sim_files_error(ENOENT);
    }
    if (old != NULL && old->inode->is_dir && !is_empty(to)) {
        return sim_files_error(ENOTEMPTY);
    }
    if (old != NULL && old != entry) {
        drop(old);
        entry = sim_files_find(from);
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
    struct inode *inode = sim_files_inode_new(false);
    sim_files_make_room(inode, len);
    memcpy(inode->bytes, bytes, len);
    sim_files_add(path, inode);
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
