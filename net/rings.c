/*
 * See rings.h. The memory is a memfd, which the other side opens through /proc/<pid>/fd.
 *
 * Invariants
 *   - written - taken, of one ring, is at most its size; both only grow. Either side keeps
 *     what it has written itself in memory of its own, and checks what the other says.
 *   - Each ring is mapped twice, one behind the other, so that a piece of it never wraps.
 *   - A side that is about to sleep says so in `wants`, then looks once more; the other
 *     moves its count, then looks into `wants`: in the one order of all of these (they are
 *     sequentially consistent) one of the two sees the other.
 *
 * Cost: no system call but where somebody sleeps.
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

#include "common/clock.h"
#include "common/error.h"
#include "common/rand.h"

enum {
    HEAD = 4096, /* bytes before the rings: a page */
    WANT_DATA = 1,
    WANT_ROOM = 2,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static const char memory_name[] = "coxswain";

/* A side's counts of bytes, each written by that side alone, and its bell. */
struct side {
    _Alignas(64) atomic_uint_least64_t written;
    _Alignas(64) atomic_uint_least64_t taken;
    _Alignas(64) atomic_uint wants; /* set by it, cleared by the other */
    atomic_uint bell;               /* the other side rings it by changing it */
};

struct head {
    uint64_t secret[2];
    uint64_t bytes;
    struct side sides[2]; /* that has made it; that has opened it */
};
_Static_assert(sizeof(struct head) <= HEAD, "it fits its page");

/* How long it pays to look before one sleeps: longer where it has helped, and the other way
 * round, down to not at all but for one in TRY_AGAIN times. */
struct patience {
    uint32_t ns;
    uint32_t n_refused;
};

enum { PATIENCE_FIRST_NS = 4000, PATIENCE_MAX_NS = 20000, TRY_AGAIN = 64, LOOKS = 16 };

struct coxi_rings {
    struct head *head;
    struct side *own;
    struct side *other;
    size_t bytes;
    uint8_t *out; /* to the other side */
    uint8_t *in;
    uint64_t written; /* our own counts: the shared ones are for the other side */
    uint64_t taken;
    struct patience for_data;
    struct patience for_room;
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
}

static struct coxi_rings *allocate(size_t bytes)
{
    struct coxi_rings *rings = calloc(1, sizeof(*rings));
    if (rings != NULL) {
        rings->bytes = bytes;
        rings->for_data.ns = rings->for_room.ns = PATIENCE_FIRST_NS;
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
        free(rings);
    }
}

int coxi_rings_new(size_t bytes, struct coxi_rings **ret)
{
    struct coxi_rings *rings = allocate(bytes);
    if (rings == NULL) {
        return coxi_error_memory("shared rings");
    }
    rings->fd = memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (rings->fd < 0 || ftruncate(rings->fd, (off_t)(HEAD + 2 * bytes)) != 0 ||
        fcntl(rings->fd, F_ADD_SEALS, SEALS) != 0 || !map(rings, rings->fd)) {
        int r = coxi_error_errno(COX_ENOMEM, "no memory to share with another process");
        coxi_rings_free(rings);
        return r;
    }
    take_sides(rings, true);
    rings->head->secret[0] = coxi_random_id();
    rings->head->secret[1] = coxi_random_id();
    rings->head->bytes = bytes;
    (void)snprintf(rings->name, sizeof(rings->name), "%d/%d/%zu/%016llx%016llx",
                   (int)getpid(), rings->fd, bytes,
                   (unsigned long long)rings->head->secret[0],
                   (unsigned long long)rings->head->secret[1]);
    *ret = rings;
    return 0;
}

/* What a name says. */
struct named {
    int pid;
    int fd;
    size_t bytes;
    unsigned long long secret[2];
};

static bool read_name(const char *name, struct named *ret)
{
    char end;
    /* Numbers too long for their types are caught below: NOLINTNEXTLINE(cert-err34-c) */
    return sscanf(name, "%d/%d/%zu/%16llx%16llx%c", &ret->pid, &ret->fd, &ret->bytes,
                  &ret->secret[0], &ret->secret[1], &end) == 5 &&
           ret->pid > 0 && ret->fd >= 0 && ret->bytes >= COXI_RING_MIN &&
           ret->bytes <= COXI_RING_MAX && (ret->bytes & (ret->bytes - 1)) == 0;
}

/* Opens what is so called, unless it is anything but such memory; -1. */
static int open_memory(const struct named *named)
{
    char path[64];
    char target[64] = "";
    char expected[64];
    struct stat status;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", named->pid, named->fd);
    (void)snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", memory_name);
    /* Before it is opened: opening may do things to what is no memory. */
    if (readlink(path, target, sizeof(target) - 1) < 0 ||
        strcmp(target, expected) != 0) {
        return -1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 &&
        ((fcntl(fd, F_GET_SEALS) & SEALS) != SEALS || fstat(fd, &status) != 0 ||
         status.st_size != (off_t)(HEAD + 2 * named->bytes))) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

int coxi_rings_open(const char *name, struct coxi_rings **ret)
{
    struct named named;
    int fd = read_name(name, &named) ? open_memory(&named) : -1;
    if (fd < 0) {
        return coxi_error(COX_EADDRESS, "no memory '%s' to share on this host", name);
    }
    struct coxi_rings *rings = allocate(named.bytes);
    bool mapped = rings != NULL && map(rings, fd);
    (void)close(fd);
    if (!mapped || rings->head->secret[0] != named.secret[0] ||
        rings->head->secret[1] != named.secret[1]) {
        coxi_rings_free(rings);
        return coxi_error(COX_EADDRESS, "memory '%s' is not the one that is meant",
                          name);
    }
    take_sides(rings, false);
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

/* ---- waiting and waking. The other process may be asleep, so futexes are shared. */

static void ring_bell(struct side *side)
{
    (void)atomic_fetch_add(&side->bell, 1);
    (void)syscall(SYS_futex, &side->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Something has come that the other side may sleep for. */
static void tell(struct coxi_rings *rings, unsigned what)
{
    if ((atomic_load(&rings->other->wants) & what) != 0) {
        (void)atomic_fetch_and(&rings->other->wants, ~what);
        ring_bell(rings->other);
    }
}

uint32_t coxi_rings_listen(struct coxi_rings *rings)
{
    return atomic_load(&rings->own->bell);
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
    (void)syscall(SYS_futex, &rings->own->bell, FUTEX_WAIT, heard, NULL, NULL, 0);
}

void coxi_rings_wake(struct coxi_rings *rings)
{
    ring_bell(rings->own);
}

/* ---- bytes */

bool coxi_rings_broken(const struct coxi_rings *rings)
{
    return atomic_load_explicit(&rings->broken, memory_order_relaxed);
}

/* How many bytes lie between the counts of a ring; 0 where that cannot be. */
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

/* ---- lingering */

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static bool linger(struct coxi_rings *rings, struct patience *patience, size_t bytes,
                   bool (*have)(struct coxi_rings *rings, size_t bytes))
{
    if (patience->ns == 0) {
        patience->n_refused++;
        patience->ns = patience->n_refused % TRY_AGAIN == 0 ? PATIENCE_FIRST_NS : 0;
        return false;
    }
    uint64_t until_ns = coxi_now_ns() + patience->ns;
    bool found = have(rings, bytes);
    while (!found && coxi_now_ns() < until_ns) {
        for (int i = 0; i < LOOKS && !found; i++) {
            relax();
            found = have(rings, bytes);
        }
    }
    uint32_t longer = patience->ns * 2;
    patience->ns = !found                     ? patience->ns / 4
                   : longer < PATIENCE_MAX_NS ? longer
                                              : PATIENCE_MAX_NS;
    return found;
}

bool coxi_rings_linger_for_data(struct coxi_rings *rings)
{
    return linger(rings, &rings->for_data, 1, have_data);
}

bool coxi_rings_linger_for_room(struct coxi_rings *rings, size_t bytes)
{
    return linger(rings, &rings->for_room, bytes, have_room);
}
