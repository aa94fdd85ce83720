/*
 * See rings.h: makes the memory of rings and bells, and opens that of others. The memory
 * is a memfd, which the other side opens through /proc/<pid>/fd. Threads: any.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rand.h"
#include "net/rings_internal.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static const char memory_name[] = "coxswain";

/* ---- memory */

static size_t mapped_bytes(size_t bytes)
{
    return COXI_RINGS_HEAD + 4 * bytes;
}

static bool map_at(uint8_t *at, size_t bytes, int fd, size_t offset)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                (off_t)offset) != MAP_FAILED;
}

/* Maps the head, and each ring twice. */
static bool map(struct coxi_rings *rings, int fd)
{
    size_t bytes = rings->bytes;
    void *reserved =
        mmap(NULL, mapped_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) {
        return false;
    }
    uint8_t *at = reserved;
    rings->head = reserved;
    bool mapped = map_at(at, COXI_RINGS_HEAD, fd, 0);
    for (size_t i = 0; mapped && i < 4; i++) {
        mapped = map_at(at + COXI_RINGS_HEAD + i * bytes, bytes, fd,
                        COXI_RINGS_HEAD + i / 2 * bytes);
    }
    return mapped;
}

static void take_sides(struct coxi_rings *rings, bool is_maker)
{
    uint8_t *first = (uint8_t *)rings->head + COXI_RINGS_HEAD;
    uint8_t *second = first + 2 * rings->bytes;
    rings->own = &rings->head->sides[is_maker ? 0 : 1];
    rings->other = &rings->head->sides[is_maker ? 1 : 0];
    rings->out = is_maker ? first : second;
    rings->in = is_maker ? second : first;
    rings->own_bell = &rings->own->bell;
    rings->other_bell = &rings->other->bell;
}

static struct coxi_rings *allocate(size_t bytes)
{
    struct coxi_rings *rings = calloc(1, sizeof(*rings));
    if (rings != NULL) {
        rings->bytes = bytes;
        rings->fd = -1;
    }
    return rings;
}

void coxi_rings_hide(struct coxi_rings *rings)
{
    if (rings->fd >= 0) {
        (void)close(rings->fd);
        rings->fd = -1;
    }
}

void coxi_rings_free(struct coxi_rings *rings)
{
    if (rings != NULL) {
        coxi_rings_hide(rings);
        if (rings->head != NULL) {
            (void)munmap(rings->head, mapped_bytes(rings->bytes));
        }
        if (rings->foreign != NULL) {
            (void)munmap(rings->foreign, COXI_RINGS_HEAD);
        }
        free(rings);
    }
}

/* Makes memory of `len` bytes that another process can open; returns its descriptor, or
 * -1. */
static int make_memory(size_t len)
{
    int fd = memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)len) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static struct coxi_bell_head *map_bell(int fd)
{
    void *head = mmap(NULL, COXI_RINGS_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return head == MAP_FAILED ? NULL : head;
}

int coxi_bell_new(struct coxi_bell **ret)
{
    struct coxi_bell *bell = calloc(1, sizeof(*bell));
    if (bell == NULL) {
        return coxi_error_memory("a shared bell");
    }
    bell->fd = make_memory(COXI_RINGS_HEAD);
    bell->head = bell->fd >= 0 ? map_bell(bell->fd) : NULL;
    if (bell->head == NULL) {
        int r = coxi_error_errno(COX_ENOMEM, "no memory to share with other processes");
        coxi_bell_free(bell);
        return r;
    }
    for (int i = 0; i < 2; i++) {
        bell->head->secret[i] = bell->secret[i] = coxi_random_id();
    }
    *ret = bell;
    return 0;
}

void coxi_bell_free(struct coxi_bell *bell)
{
    if (bell != NULL) {
        if (bell->head != NULL) {
            (void)munmap(bell->head, COXI_RINGS_HEAD);
        }
        if (bell->fd >= 0) {
            (void)close(bell->fd);
        }
        free(bell);
    }
}

int coxi_rings_new(size_t bytes, struct coxi_bell *bell, struct coxi_rings **ret)
{
    struct coxi_rings *rings = allocate(bytes);
    if (rings == NULL) {
        return coxi_error_memory("shared rings");
    }
    rings->fd = make_memory(COXI_RINGS_HEAD + 2 * bytes);
    if (rings->fd < 0 || !map(rings, rings->fd)) {
        int r = coxi_error_errno(COX_ENOMEM, "no memory to share with another process");
        coxi_rings_free(rings);
        return r;
    }
    take_sides(rings, true);
    rings->head->secret[0] = coxi_random_id();
    rings->head->secret[1] = coxi_random_id();
    rings->head->bytes = bytes;
    if (bell != NULL) {
        memcpy(rings->head->bell_secret, bell->secret, sizeof(bell->secret));
        rings->own_bell = &bell->head->bell;
    }
    (void)snprintf(rings->name, sizeof(rings->name), "v%d/%d/%d/%d/%zu/%016llx%016llx",
                   COXI_RINGS_LAYOUT, (int)getpid(), rings->fd,
                   bell != NULL ? bell->fd : -1, bytes,
                   (unsigned long long)rings->head->secret[0],
                   (unsigned long long)rings->head->secret[1]);
    *ret = rings;
    return 0;
}

/* The parts of a name. */
struct named {
    int layout;
    int pid;
    int fd;
    int bell_fd; /* -1: the bell is in the rings */
    size_t bytes;
    unsigned long long secret[2];
};

static bool read_name(const char *name, struct named *ret)
{
    char end;
    /* Numbers that are too long for their types fail a later check:
     * NOLINTNEXTLINE(cert-err34-c) */
    return sscanf(name, "v%d/%d/%d/%d/%zu/%16llx%16llx%c", &ret->layout, &ret->pid,
                  &ret->fd, &ret->bell_fd, &ret->bytes, &ret->secret[0],
                  &ret->secret[1], &end) == 7 &&
           ret->layout == COXI_RINGS_LAYOUT && ret->pid > 0 && ret->fd >= 0 &&
           ret->bell_fd >= -1 && ret->bytes >= COXI_RING_MIN &&
           ret->bytes <= COXI_RING_MAX && (ret->bytes & (ret->bytes - 1)) == 0;
}

/* Opens a process's descriptor, but only if it is memory of `len` bytes made by
 * make_memory; otherwise returns -1. */
static int open_memory(int pid, int from, size_t len)
{
    char path[64];
    char target[64] = "";
    char expected[64];
    struct stat status;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, from);
    (void)snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", memory_name);
    /* Check the target before opening it, because opening other files may have
     * effects. */
    if (readlink(path, target, sizeof(target) - 1) < 0 ||
        strcmp(target, expected) != 0) {
        return -1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && ((fcntl(fd, F_GET_SEALS) & SEALS) != SEALS ||
                    fstat(fd, &status) != 0 || status.st_size != (off_t)len)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Maps the bell that the other side shares among its rings. False: the bell is not
 * available. */
static bool open_bell(struct coxi_rings *rings, const struct named *named)
{
    int fd = open_memory(named->pid, named->bell_fd, COXI_RINGS_HEAD);
    if (fd < 0) {
        return false;
    }
    rings->foreign = map_bell(fd);
    (void)close(fd);
    if (rings->foreign == NULL ||
        memcmp(rings->foreign->secret, rings->head->bell_secret,
               sizeof(rings->foreign->secret)) != 0) {
        return false;
    }
    rings->other_bell = &rings->foreign->bell;
    return true;
}

int coxi_rings_open(const char *name, struct coxi_rings **ret)
{
    struct named named;
    int fd = read_name(name, &named)
                 ? open_memory(named.pid, named.fd, COXI_RINGS_HEAD + 2 * named.bytes)
                 : -1;
    if (fd < 0) {
        return coxi_error(COX_EADDRESS, "no memory '%s' to share on this host", name);
    }
    struct coxi_rings *rings = allocate(named.bytes);
    bool mapped = rings != NULL && map(rings, fd);
    (void)close(fd);
    bool meant = mapped && rings->head->secret[0] == named.secret[0] &&
                 rings->head->secret[1] == named.secret[1];
    if (meant) {
        take_sides(rings, false);
        meant = named.bell_fd < 0 || open_bell(rings, &named);
    }
    if (!meant) {
        coxi_rings_free(rings);
        return coxi_error(COX_EADDRESS, "memory '%s' belongs to another connection",
                          name);
    }
    *ret = rings;
    return 0;
}

const char *coxi_rings_name(const struct coxi_rings *rings)
{
    return rings->name;
}
