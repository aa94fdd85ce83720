/*
 * See trace.h. A ring has one writer, its thread, and one reader at a time, which has the
 * lock. The writer never waits and overwrites nothing: while the ring is full, spans are
 * counted and not even timed. So a thread that does more than a ring holds pays for what is
 * told, not for all that it does. And a ring that was full rests before it has room again,
 * because telling a span costs more than noting it: the thread tells all that it does for a
 * while, then nothing for a longer while.
 *
 * When a thread ends, its ring is free for another one once it is drained.
 */
#include "common/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"

enum { THREAD_NONE = UINT32_MAX, LOOK_EVERY = 1024 };

struct item {
    uint64_t begin_ns;
    uint64_t ns;
    struct coxi_trace_of of;
};

struct ring {
    atomic_uint_least64_t head; /* spans written since the ring was made */
    atomic_uint_least64_t end;  /* there is no room for the span of this number */
    atomic_uint_least64_t lost; /* since the ring was made */
    uint64_t tail;              /* spans read; guarded by the lock */
    uint64_t room_ns;           /* when it had room last; guarded by the lock */
    uint64_t told_lost;         /* guarded by the lock */
    atomic_bool used;           /* a thread has it */
    struct coxi_trace_thread thread;
    struct item items[COXI_TRACE_RING_SPANS]; /* from tail to head the reader's */
};

atomic_bool coxi_trace_flag;

static struct coxi_mutex lock = COXI_MUTEX_INIT; /* guards the rings' list; leaf */
static struct ring *rings[COXI_TRACE_RINGS] COXI_GUARDED_BY(lock);
static size_t n_rings COXI_GUARDED_BY(lock);
static uint64_t traced_run COXI_GUARDED_BY(lock);
/* Another one each time, so that none starves if there are more spans than are asked for. */
static size_t first_drained COXI_GUARDED_BY(lock);
static atomic_uint_least64_t until_ns;
static atomic_uint_least64_t n_flows;
static atomic_uint_least64_t n_ringless; /* spans of threads without a ring */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor gives a thread's ring back */
static _Thread_local struct ring *mine;
static _Thread_local bool is_ringless;
static _Thread_local uint32_t number = THREAD_NONE;
static _Thread_local uint64_t works_for;

/* ---- rings */

static void give_back(void *arg)
{
    struct ring *ring = arg;
    atomic_store_explicit(&ring->used, false, memory_order_release);
}

static void make_key(void)
{
    (void)pthread_key_create(&key, give_back);
    atomic_store(&n_flows, coxi_random_id());
}

static bool is_full(const struct ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) ==
           atomic_load_explicit(&ring->end, memory_order_acquire);
}

/* The thread may write again where everything before the tail was. */
static void make_room(struct ring *ring, uint64_t now_ns) COXI_REQUIRES(lock)
{
    ring->room_ns = now_ns;
    atomic_store_explicit(&ring->end, ring->tail + COXI_TRACE_RING_SPANS,
                          memory_order_release);
}

/* A ring whose thread has ended and of which everything was read, or a new one. */
static struct ring *find_ring(void) COXI_REQUIRES(lock)
{
    struct ring *ring = NULL;
    for (size_t i = 0; ring == NULL && i < n_rings; i++) {
        bool is_free = !atomic_load_explicit(&rings[i]->used, memory_order_acquire) &&
                       atomic_load(&rings[i]->head) == rings[i]->tail;
        ring = is_free ? rings[i] : NULL;
    }
    if (ring == NULL && n_rings < COXI_TRACE_RINGS) {
        ring = calloc(1, sizeof(*ring));
        rings[n_rings] = ring;
        n_rings += ring != NULL;
    }
    if (ring != NULL) {
        make_room(ring, coxi_now_ns()); /* a new thread need not rest for another one */
    }
    return ring;
}

static struct ring *own_ring(void)
{
    char name[16] = "";
    if (mine != NULL || is_ringless) {
        return mine;
    }
    (void)pthread_once(&once, make_key);
    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    coxi_lock(&lock);
    struct ring *ring = find_ring();
    if (ring != NULL) {
        atomic_store(&ring->used, true);
        ring->thread.id = (uint64_t)syscall(SYS_gettid);
        (void)snprintf(ring->thread.name, sizeof(ring->thread.name),
                       number == THREAD_NONE ? "%.15s" : "%.15s %u", name, number);
    }
    coxi_unlock(&lock);
    is_ringless = ring == NULL;
    mine = ring;
    (void)pthread_setspecific(key, ring);
    return ring;
}

void coxi_trace_number_thread(uint32_t n)
{
    number = n;
}

/* ---- writing */

/* The calling thread's ring; NULL: its span is lost, and counted. */
static struct ring *ring_with_room(void)
{
    struct ring *ring = own_ring();
    if (ring == NULL) {
        (void)atomic_fetch_add_explicit(&n_ringless, 1, memory_order_relaxed);
        return NULL;
    }
    if (!is_full(ring)) {
        return ring;
    }
    uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed) + 1;
    atomic_store_explicit(&ring->lost, lost, memory_order_relaxed);
    if (lost % LOOK_EVERY == 0 &&
        coxi_now_ns() > atomic_load_explicit(&until_ns, memory_order_relaxed)) {
        atomic_store(&coxi_trace_flag, false); /* nobody asks any more */
    }
    return NULL;
}

uint64_t coxi_trace_begin_on(void)
{
    return ring_with_room() != NULL ? coxi_now_ns() : 0;
}

void coxi_trace_note(uint64_t begin_ns, uint64_t end_ns, const struct coxi_trace_of *of)
{
    if (end_ns > atomic_load_explicit(&until_ns, memory_order_relaxed)) {
        atomic_store(&coxi_trace_flag, false); /* nobody asks any more */
        return;
    }
    struct ring *ring = ring_with_room();
    if (ring != NULL) {
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        ring->items[head % COXI_TRACE_RING_SPANS] =
            (struct item){begin_ns, end_ns - begin_ns, *of};
        atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    }
}

void coxi_trace_work_for(uint64_t run)
{
    works_for = run;
}

uint64_t coxi_trace_works_for(void)
{
    return works_for;
}

void coxi_trace_end_part(uint64_t begin_ns, enum coxi_trace_kind kind, uint64_t arg)
{
    if (begin_ns != 0 && works_for != 0) {
        coxi_trace_end(begin_ns,
                       &(struct coxi_trace_of){.kind = kind,
                                               .arg = arg < UINT32_MAX ? (uint32_t)arg
                                                                       : UINT32_MAX,
                                               .run = works_for});
    }
}

uint64_t coxi_trace_flow(uint64_t begin_ns)
{
    if (begin_ns == 0) {
        return 0;
    }
    (void)pthread_once(&once, make_key);
    uint64_t flow = atomic_fetch_add_explicit(&n_flows, 1, memory_order_relaxed);
    return flow != 0 ? flow : 1;
}

/* ---- reading */

/* What the ring has lost since the last time. */
static uint64_t take_lost(struct ring *ring) COXI_REQUIRES(lock)
{
    uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
    uint64_t more = lost - ring->told_lost;
    ring->told_lost = lost;
    return more;
}

/* A ring of which nothing was read has no other room to get. */
static bool rests(const struct ring *ring, uint64_t now_ns) COXI_REQUIRES(lock)
{
    uint64_t end = atomic_load_explicit(&ring->end, memory_order_relaxed);
    return is_full(ring) &&
           (ring->tail + COXI_TRACE_RING_SPANS == end ||
            now_ns < ring->room_ns + (uint64_t)COXI_TRACE_REST_MS * 1000000);
}

/* Moves spans of a ring to ret[*n]; those of other runs are left out. */
static void drain_ring(struct ring *ring, uint64_t run, uint64_t now_ns,
                       struct coxi_trace_span *ret, size_t max, size_t *n)
    COXI_REQUIRES(lock)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t at = ring->tail;
    for (; at < head && *n < max; at++) {
        const struct item *item = &ring->items[at % COXI_TRACE_RING_SPANS];
        if (item->of.run == 0 || item->of.run == run) {
            ret[(*n)++] = (struct coxi_trace_span){
                .begin_ns = item->begin_ns,
                .ns = item->ns,
                .closure = item->of.closure,
                .flow = item->of.flow,
                .thread = ring->thread.id,
                .kind = (uint32_t)item->of.kind,
                .arg = item->of.arg,
            };
        }
    }
    ring->tail = at;
    if (!rests(ring, now_ns)) {
        make_room(ring, now_ns);
    }
}

int coxi_trace_drain(uint64_t run, struct coxi_trace_span *ret, size_t max,
                     size_t *ret_n, uint64_t *ret_dropped, bool *ret_more)
{
    uint64_t now_ns = coxi_now_ns();
    uint64_t dropped = atomic_exchange(&n_ringless, 0);
    size_t n = 0;
    coxi_lock(&lock);
    bool goes_on = now_ns <= atomic_load(&until_ns);
    if (goes_on && traced_run != run) {
        coxi_unlock(&lock);
        return coxi_error(COX_EBUSY, "another run traces this process");
    }
    if (!goes_on) { /* what is there is of an older trace */
        for (size_t i = 0; i < n_rings; i++) {
            rings[i]->tail = atomic_load(&rings[i]->head);
            make_room(rings[i], now_ns);
            (void)take_lost(rings[i]);
        }
        traced_run = run;
        dropped = 0;
    }
    first_drained++;
    for (size_t i = 0; i < n_rings; i++) {
        struct ring *ring = rings[(first_drained + i) % n_rings];
        drain_ring(ring, run, now_ns, ret, max, &n);
        dropped += take_lost(ring);
    }
    atomic_store(&until_ns, now_ns + (uint64_t)COXI_TRACE_PATIENCE_MS * 1000000);
    atomic_store(&coxi_trace_flag, true);
    coxi_unlock(&lock);
    *ret_n = n;
    *ret_dropped = dropped;
    *ret_more = n == max;
    return 0;
}

void coxi_trace_stop(uint64_t run)
{
    coxi_lock(&lock);
    if (traced_run == run) {
        atomic_store(&coxi_trace_flag, false);
        atomic_store(&until_ns, 0);
    }
    coxi_unlock(&lock);
}

size_t coxi_trace_threads(struct coxi_trace_thread ret[COXI_TRACE_RINGS])
{
    coxi_lock(&lock);
    size_t n = n_rings;
    for (size_t i = 0; i < n; i++) {
        ret[i] = rings[i]->thread;
    }
    coxi_unlock(&lock);
    return n;
}
