/*
 * See rings.h. The memory is a memfd, which the other side opens through
 * /proc/<pid>/fd.
 *
 * Invariants
 *   - In each ring, written - taken is at most its size; both only grow. Each side
 *     keeps its own counts in memory of its own, and checks the counts of the other
 *     side.
 *   - Each ring is mapped twice, one mapping right after the other, so that a piece of
 *     it never wraps.
 *   - A side that is about to sleep says so in `wants`, then looks once more; the other
 *     side moves its count, then looks into `wants`. All these accesses are
 *     sequentially consistent, so one of the two sees the other. `dozes` does the same
 *     for a bell that rings share. Only the side that waits at the bell writes it, so a
 *     process that dies or stops while it rings keeps no other from ringing.
 *   - A bell has memory of its own, which processes that open any of its rings map,
 *     too. The rings contain its secret.
 *
 * Cost: system calls only if a side sleeps.
 */
#include "net/rings.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"

enum {
    HEAD = 4096, /* bytes before the rings: a page */
    WANT_DATA = 1,
    WANT_ROOM = 2,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static const char memory_name[] = "coxswain";

/* The counts and the bell of one side. Only that side writes its counts. */
struct side {
    _Alignas(64) atomic_uint_least64_t written;
    _Alignas(64) atomic_uint_least64_t taken;
    /* what this side waits for; set by this side, cleared by the other */
    _Alignas(64) atomic_uint wants;
    atomic_uint bell; /* the other side changes it to ring; unused with a shared bell */
};

/* The memory of a bell that rings share. */
struct bell_head {
    uint64_t secret[2];
    atomic_uint dozes; /* 1: its owner waits for data, or is about to */
    atomic_uint bell;
};
_Static_assert(sizeof(struct bell_head) <= HEAD, "it fits its page");

struct coxi_bell {
    struct bell_head *head;
    uint64_t secret[2];
    int fd;
};

/*
 * The memory of the rings. Any change of this struct, of struct side, of struct
 * bell_head, of their rules above or of the name's format needs a new
 * COXI_RINGS_LAYOUT: the protocol number (schema/versions) does not cover them. Peers
 * with different layouts stay on the stream.
 */
struct head {
    uint64_t secret[2];
    /* the secret of the maker's bell, if that bell is shared */
    uint64_t bell_secret[2];
    uint64_t bytes;
    /* [0]: the side that made the memory; [1]: the side that opened it */
    struct side sides[2];
};
_Static_assert(sizeof(struct head) <= HEAD, "it fits its page");

static const struct coxi_linger_limits linger_limits = {4000, 20000, false};

struct coxi_rings {
    struct head *head;
    struct side *own;
    struct side *other;
    atomic_uint *own_bell;
    atomic_uint *other_bell;
    struct bell_head *foreign; /* the other side's bell, if it is shared */
    size_t bytes;
    uint8_t *out; /* to the other side */
    uint8_t *in;
    /* our own counts; the counts in shared memory are for the other side to read */
    uint64_t written;
    uint64_t taken;
    struct coxi_linger for_data;
    struct coxi_linger for_room;
    atomic_bool broken;
    int fd; /* -1: hidden */
    char name[COXI_RINGS_NAME_MAX];
};

/* ---- memory */

static size_t mapped_bytes(size_t bytes)
{
    return HEAD + 4 * bytes;
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
    bool mapped = map_at(at, HEAD, fd, 0);
    for (size_t i = 0; mapped && i < 4; i++) {
        mapped = map_at(at + HEAD + i * bytes, bytes, fd, HEAD + i / 2 * bytes);
    }
    return mapped;
}

static void take_sides(struct coxi_rings *rings, bool is_maker)
{
    uint8_t *first = (uint8_t *)rings->head + HEAD;
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
            (void)munmap(rings->foreign, HEAD);
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

static struct bell_head *map_bell(int fd)
{
    void *head = mmap(NULL, HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return head == MAP_FAILED ? NULL : head;
}

int coxi_bell_new(struct coxi_bell **ret)
{
    struct coxi_bell *bell = calloc(1, sizeof(*bell));
    if (bell == NULL) {
        return coxi_error_memory("a shared bell");
    }
    bell->fd = make_memory(HEAD);
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
            (void)munmap(bell->head, HEAD);
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
    rings->fd = make_memory(HEAD + 2 * bytes);
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
    int fd = open_memory(named->pid, named->bell_fd, HEAD);
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
                 ? open_memory(named.pid, named.fd, HEAD + 2 * named.bytes)
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

static bool have_data(struct coxi_rings *rings, size_t bytes)
{
    size_t len;
    (void)coxi_rings_data(rings, &len);
    return len >= bytes || coxi_rings_broken(rings);
}

static bool have_room(struct coxi_rings *rings, size_t bytes)
{
    size_t len;
    (void)coxi_rings_room(rings, &len);
    return len >= bytes || coxi_rings_broken(rings);
}

/* ---- waiting and waking. The two processes share the futexes. */

static void ring_bell(atomic_uint *bell)
{
    (void)atomic_fetch_add(bell, 1);
    (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Rings the other side's bell if that side may be waiting for `what`. */
static void tell(struct coxi_rings *rings, unsigned what)
{
    if ((atomic_load(&rings->other->wants) & what) != 0) {
        (void)atomic_fetch_and(&rings->other->wants, ~what);
        ring_bell(rings->other_bell);
    } else if (what == WANT_DATA && rings->foreign != NULL &&
               atomic_load(&rings->foreign->dozes) != 0) {
        ring_bell(rings->other_bell);
    }
}

uint32_t coxi_rings_listen(struct coxi_rings *rings)
{
    return atomic_load(rings->own_bell);
}

bool coxi_rings_ask_data(struct coxi_rings *rings)
{
    (void)atomic_fetch_or(&rings->own->wants, WANT_DATA);
    return have_data(rings, 1);
}

bool coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes)
{
    (void)atomic_fetch_or(&rings->own->wants, WANT_ROOM);
    return have_room(rings, bytes);
}

void coxi_rings_wait(struct coxi_rings *rings, uint32_t heard)
{
    (void)syscall(SYS_futex, rings->own_bell, FUTEX_WAIT, heard, NULL, NULL, 0);
}

void coxi_rings_wake(struct coxi_rings *rings)
{
    ring_bell(rings->own_bell);
}

/* ---- waiting and waking at a bell that rings share */

bool coxi_rings_have_data(struct coxi_rings *rings)
{
    return have_data(rings, 1);
}

bool coxi_rings_unread(const struct coxi_rings *rings)
{
    return atomic_load(&rings->other->written) != atomic_load(&rings->own->taken);
}

uint32_t coxi_bell_listen(struct coxi_bell *bell)
{
    return atomic_load(&bell->head->bell);
}

void coxi_bell_doze(struct coxi_bell *bell)
{
    atomic_store(&bell->head->dozes, 1);
}

void coxi_bell_wait(struct coxi_bell *bell, uint32_t heard)
{
    (void)syscall(SYS_futex, &bell->head->bell, FUTEX_WAIT, heard, NULL, NULL, 0);
}

void coxi_bell_rouse(struct coxi_bell *bell)
{
    atomic_store(&bell->head->dozes, 0);
}

void coxi_bell_ring(struct coxi_bell *bell)
{
    ring_bell(&bell->head->bell);
}

/* ---- bytes */

bool coxi_rings_broken(const struct coxi_rings *rings)
{
    return atomic_load_explicit(&rings->broken, memory_order_relaxed);
}

/* The number of bytes between the counts of a ring; 0 if they are impossible. */
static size_t between(struct coxi_rings *rings, uint64_t written, uint64_t taken)
{
    uint64_t len = written - taken;
    if (len > rings->bytes) {
        atomic_store_explicit(&rings->broken, true, memory_order_relaxed);
        return 0;
    }
    return (size_t)len;
}

void *coxi_rings_room(struct coxi_rings *rings, size_t *ret_len)
{
    size_t used = between(rings, rings->written, atomic_load(&rings->other->taken));
    *ret_len = coxi_rings_broken(rings) ? 0 : rings->bytes - used;
    return rings->out + (rings->written & (rings->bytes - 1));
}

void coxi_rings_wrote(struct coxi_rings *rings, size_t len)
{
    rings->written += len;
    atomic_store(&rings->own->written, rings->written);
    tell(rings, WANT_DATA);
}

const void *coxi_rings_data(struct coxi_rings *rings, size_t *ret_len)
{
    *ret_len = between(rings, atomic_load(&rings->other->written), rings->taken);
    return rings->in + (rings->taken & (rings->bytes - 1));
}

void coxi_rings_took(struct coxi_rings *rings, size_t len)
{
    rings->taken += len;
    atomic_store(&rings->own->taken, rings->taken);
    tell(rings, WANT_ROOM);
}

/* The next step of a copy: at most `room` and `left` bytes. */
static size_t step_of(size_t room, size_t left)
{
    size_t step = room < left ? room : left;
    return step < COXI_RINGS_STEP ? step : COXI_RINGS_STEP;
}

size_t coxi_rings_write(struct coxi_rings *rings, const void *from, size_t len)
{
    size_t n = 0;
    size_t room = 1;
    while (n < len && room > 0) {
        void *to = coxi_rings_room(rings, &room);
        size_t step = step_of(room, len - n);
        memcpy(to, (const uint8_t *)from + n, step);
        n += step;
        if (step > 0) {
            coxi_rings_wrote(rings, step);
        }
    }
    return n;
}

size_t coxi_rings_read(struct coxi_rings *rings, void *to, size_t len)
{
    size_t n = 0;
    size_t have = 1;
    while (n < len && have > 0) {
        const void *from = coxi_rings_data(rings, &have);
        size_t step = step_of(have, len - n);
        memcpy((uint8_t *)to + n, from, step);
        n += step;
        if (step > 0) {
            coxi_rings_took(rings, step);
        }
    }
    return n;
}

/* ---- lingering */

struct wanted {
    struct coxi_rings *rings;
    size_t bytes;
};

static bool has_data(void *arg)
{
    return have_data(arg, 1);
}

static bool has_room(void *arg)
{
    const struct wanted *wanted = arg;
    return have_room(wanted->rings, wanted->bytes);
}

bool coxi_rings_linger_for_data(struct coxi_rings *rings)
{
    return coxi_linger(&rings->for_data, &linger_limits, has_data, rings);
}

bool coxi_rings_linger_for_room(struct coxi_rings *rings, size_t bytes)
{
    struct wanted wanted = {rings, bytes};
    return coxi_linger(&rings->for_room, &linger_limits, has_room, &wanted);
}
