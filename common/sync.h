/*
 * Locks and waits as this project uses them: deadlines use the monotonic clock; an
 * initialization that fails counts as lack of memory; the compiler checks the locks
 * (common/guarded.h); a long wait is reported; and a thread may poll for a moment
 * before it sleeps.
 */
#ifndef COXI_COMMON_SYNC_H
#define COXI_COMMON_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/guarded.h"

/* ---- mutexes */

struct COXI_LOCK_TYPE coxi_mutex {
    pthread_mutex_t mutex;
};

#define COXI_MUTEX_INIT {PTHREAD_MUTEX_INITIALIZER}

static inline void coxi_mutex_init(struct coxi_mutex *lock)
{
    (void)pthread_mutex_init(&lock->mutex, NULL);
}

static inline void coxi_mutex_fini(struct coxi_mutex *lock)
{
    (void)pthread_mutex_destroy(&lock->mutex);
}

static inline void coxi_lock(struct coxi_mutex *lock) COXI_ACQUIRES(lock) COXI_UNCHECKED
{
    (void)pthread_mutex_lock(&lock->mutex);
}

static inline void coxi_unlock(struct coxi_mutex *lock)
    COXI_RELEASES(lock) COXI_UNCHECKED
{
    (void)pthread_mutex_unlock(&lock->mutex);
}

/* True: the lock was free, and is held now. */
static inline bool coxi_trylock(struct coxi_mutex *lock)
    COXI_ACQUIRES_IF_TRUE(lock) COXI_UNCHECKED
{
    return pthread_mutex_trylock(&lock->mutex) == 0;
}

/* Tells the compiler that no other thread can use the object that this lock guards,
 * because the object is being made or freed. Costs nothing. */
static inline void coxi_unshared(const struct coxi_mutex *lock) COXI_ASSERTS(lock)
{
    (void)lock;
}

/* Tells the compiler that the lock counts as held by a contract that it cannot see; the
 * caller's comment says which. Costs nothing. */
static inline void coxi_held(const struct coxi_mutex *lock) COXI_ASSERTS(lock)
{
    (void)lock;
}

/* ---- locks that several readers hold at once, or one writer */

struct COXI_LOCK_TYPE coxi_rwlock {
    pthread_rwlock_t rwlock;
};

/* A waiting writer comes before later readers, so that an endless sequence of readers
 * cannot keep it waiting for ever. */
static inline void coxi_rwlock_init(struct coxi_rwlock *lock)
{
    pthread_rwlockattr_t attr;
    (void)pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr,
                                        PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&lock->rwlock, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
}

static inline void coxi_rwlock_fini(struct coxi_rwlock *lock)
{
    (void)pthread_rwlock_destroy(&lock->rwlock);
}

static inline void coxi_read_lock(struct coxi_rwlock *lock)
    COXI_ACQUIRES_SHARED(lock) COXI_UNCHECKED
{
    (void)pthread_rwlock_rdlock(&lock->rwlock);
}

static inline void coxi_write_lock(struct coxi_rwlock *lock)
    COXI_ACQUIRES(lock) COXI_UNCHECKED
{
    (void)pthread_rwlock_wrlock(&lock->rwlock);
}

/* Unlocks, for a reader or for the writer. */
static inline void coxi_rw_unlock(struct coxi_rwlock *lock)
    COXI_RELEASES_ANY(lock) COXI_UNCHECKED
{
    (void)pthread_rwlock_unlock(&lock->rwlock);
}

/* ---- condition variables */

/* Makes a condition variable that uses the monotonic clock, for coxi_wait_until with
 * coxi_deadline. */
static inline void coxi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

/* Waits once; false: the deadline has passed. Unlocks meanwhile. */
static inline bool coxi_wait_until(pthread_cond_t *cond, struct coxi_mutex *lock,
                                   const struct timespec *until)
    COXI_REQUIRES(lock) COXI_UNCHECKED
{
    return pthread_cond_timedwait(cond, &lock->mutex, until) == 0;
}

/* Waits once for work. There is no deadline, because the thread has nothing to do until
 * it gets work, or is told to end. Unlocks meanwhile. */
static inline void coxi_wait_for_work(pthread_cond_t *cond, struct coxi_mutex *lock)
    COXI_REQUIRES(lock) COXI_UNCHECKED
{
    (void)pthread_cond_wait(cond, &lock->mutex);
}

/* Waits once for an event that is certain to come, because a deadline or a closed link
 * elsewhere makes it come: the caller says which. Unlocks meanwhile. */
static inline void coxi_wait_for_end(pthread_cond_t *cond, struct coxi_mutex *lock)
    COXI_REQUIRES(lock) COXI_UNCHECKED
{
    (void)pthread_cond_wait(cond, &lock->mutex);
}

/* ---- waits that may last */

/*
 * Patience with a wait that may last: tells the waiting code when to say what it waits
 * for, first after 10 s, then at longer intervals. A zeroed struct is a wait that
 * begins.
 *
 *     struct coxi_patience patience = {0};
 *     while (!there) {
 *         if (coxi_patience_wait(&patience, &changed, &lock)) {
 *             ... say it ...
 *         }
 *     }
 *
 * One thread at a time.
 */
enum { COXI_PATIENCE_MS = 10000 };

/* The patience of waits that begin now: COXI_PATIENCE_MS, which tests shorten. */
extern atomic_uint coxi_patience_ms;

struct coxi_patience {
    uint64_t since_ms; /* when it was asked first; 0: not yet */
    uint64_t next_ms;  /* when to report the wait next */
    bool ended;
};

/* True 10 s after the first call, then 20, 40, 80 ... s after it: the caller then tells
 * what the thread waits for. `now_ms` is coxi_now_ms(). */
static inline bool coxi_patience_ends(struct coxi_patience *patience, uint64_t now_ms)
{
    if (patience->since_ms == 0) {
        patience->since_ms = now_ms;
        patience->next_ms = now_ms + atomic_load(&coxi_patience_ms);
    }
    if (now_ms < patience->next_ms) {
        return false;
    }
    patience->next_ms = now_ms + (now_ms - patience->since_ms);
    patience->ended = true;
    return true;
}

/* True if patience has ended at least once: the wait was reported. */
static inline bool coxi_patience_has_ended(const struct coxi_patience *patience)
{
    return patience->ended;
}

/* The duration of the wait so far, in seconds. */
static inline uint64_t coxi_patience_seconds(const struct coxi_patience *patience,
                                             uint64_t now_ms)
{
    return patience->since_ms == 0 ? 0 : (now_ms - patience->since_ms) / 1000;
}

/* Waits once, at most until patience ends. True: patience has ended, so report what the
 * thread waits for. Unlocks meanwhile. */
static inline bool coxi_patience_wait(struct coxi_patience *patience,
                                      pthread_cond_t *cond, struct coxi_mutex *lock)
    COXI_REQUIRES(lock)
{
    uint64_t now_ms = coxi_now_ms();
    if (coxi_patience_ends(patience, now_ms)) {
        return true;
    }
    uint64_t left_ms = patience->next_ms - now_ms;
    struct timespec until =
        coxi_deadline(left_ms < INT32_MAX ? (int)left_ms : INT32_MAX);
    return !coxi_wait_until(cond, lock, &until) &&
           coxi_patience_ends(patience, coxi_now_ms());
}

/* ---- polling before a sleep */

/*
 * Lets a thread poll for an event for a moment ("look") before it sleeps. If the event
 * comes sooner than a sleep and a wake-up would take, the look saves both. The duration
 * of a look adapts: it grows while looks find the event, and shrinks to 0 if they do
 * not; then only one look in 64 is made.
 *
 * One thread at a time for each struct. A zeroed struct has not looked yet.
 */
struct coxi_linger {
    uint32_t ns; /* duration of the next look */
    uint32_t n;  /* looks asked for while `ns` is 0 */
};

/* The duration of the first look, and the most. */
struct coxi_linger_limits {
    uint32_t first_ns;
    uint32_t most_ns;
    bool yields; /* lets other threads have the core between looks */
};

/* Calls `have` repeatedly until it returns true, and returns true. False: the event did
 * not come during the look. */
bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg);

/* ---- threads */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COXI_STACK_SMALL = 2 << 20 }; /* sanitizers make frames larger */
#else
enum { COXI_STACK_SMALL = 1 << 20 };
#endif

/* Starts a thread with a name that ps and gdb show (at most 15 bytes). 0 or
 * COX_ENOMEM. */
int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                      void *arg);

/* The same with a stack of COXI_STACK_SMALL bytes, for threads of which there may be
 * thousands, and whose functions have no large arrays. */
int coxi_thread_start_small(pthread_t *ret, const char *name, void *(*run)(void *),
                            void *arg);

#endif
