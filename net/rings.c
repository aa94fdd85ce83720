/*
 * See rings.h. rings_open.c makes and opens the memory.
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

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/rings_internal.h"

enum {
    WANT_DATA = 1,
    WANT_ROOM = 2,
};

static const struct coxi_linger_limits linger_limits = {4000, 20000, false};

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

static void mark_broken(struct coxi_rings *rings)
{
    atomic_store_explicit(&rings->broken, true, memory_order_relaxed);
}

static uint64_t own_count(const atomic_uint_least64_t *count)
{
    return atomic_load_explicit(count, memory_order_acquire);
}

/* Reads a count of the other side, which must not go backwards. `seen` is read first, so
 * that it cannot come from a thread that has looked later. */
static uint64_t look(struct coxi_rings *rings, const atomic_uint_least64_t *count,
                     atomic_uint_least64_t *seen)
{
    uint64_t before = own_count(seen);
    uint64_t now = atomic_load(count);
    if (now < before) {
        mark_broken(rings);
    } else if (now > before) {
        atomic_store_explicit(seen, now, memory_order_release);
    }
    return now;
}

static uint64_t look_written(struct coxi_rings *rings)
{
    return look(rings, &rings->other->written, &rings->seen_written);
}

static uint64_t look_taken(struct coxi_rings *rings)
{
    return look(rings, &rings->other->taken, &rings->seen_taken);
}

/* The number of bytes between the counts of a ring; 0 if they are impossible. */
static size_t between(struct coxi_rings *rings, uint64_t written, uint64_t taken)
{
    uint64_t len = written - taken;
    if (len > rings->bytes) {
        mark_broken(rings);
        return 0;
    }
    return (size_t)len;
}

bool coxi_rings_check(struct coxi_rings *rings)
{
    uint64_t taken = look_taken(rings);
    uint64_t written = own_count(&rings->written); /* not before the other's `taken` */
    uint64_t took = own_count(&rings->taken);
    uint64_t wrote = look_written(rings);
    uint64_t took_later = own_count(&rings->taken);
    bool beyond = wrote > took_later && wrote - took_later > rings->bytes;
    if (taken > written || wrote < took || beyond) {
        mark_broken(rings);
    }
    return !coxi_rings_broken(rings);
}

void *coxi_rings_room(struct coxi_rings *rings, size_t *ret_len)
{
    uint64_t written = own_count(&rings->written);
    size_t used = between(rings, written, look_taken(rings));
    *ret_len = coxi_rings_broken(rings) ? 0 : rings->bytes - used;
    return rings->out + (written & (rings->bytes - 1));
}

void coxi_rings_wrote(struct coxi_rings *rings, size_t len)
{
    uint64_t written = own_count(&rings->written) + len;
    atomic_store_explicit(&rings->written, written, memory_order_release);
    atomic_store(&rings->own->written, written);
    tell(rings, WANT_DATA);
}

const void *coxi_rings_data(struct coxi_rings *rings, size_t *ret_len)
{
    uint64_t taken = own_count(&rings->taken);
    size_t len = between(rings, look_written(rings), taken);
    *ret_len = coxi_rings_broken(rings) ? 0 : len;
    return rings->in + (taken & (rings->bytes - 1));
}

void coxi_rings_took(struct coxi_rings *rings, size_t len)
{
    uint64_t taken = own_count(&rings->taken) + len;
    atomic_store_explicit(&rings->taken, taken, memory_order_release);
    atomic_store(&rings->own->taken, taken);
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
