/*
 * Locks and condition variables as this project uses them: deadlines are monotonic; a
 * failed initialization is lack of memory; the compiler knows the locks
 * (common/guarded.h).
 */
#ifndef COXI_COMMON_SYNC_H
#define COXI_COMMON_SYNC_H

#include <pthread.h>
#include <stdbool.h>

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

/* No other thread has the object of this lock, because it is being made, or freed.
 * Costs nothing. */
static inline void coxi_unshared(const struct coxi_mutex *lock) COXI_ASSERTS(lock)
{
    (void)lock;
}

/* The lock is held by a contract that the compiler cannot see: say which one. Costs
 * nothing. */
static inline void coxi_held(const struct coxi_mutex *lock) COXI_ASSERTS(lock)
{
    (void)lock;
}

/* ---- locks that several readers hold at once, or one writer */

struct COXI_LOCK_TYPE coxi_rwlock {
    pthread_rwlock_t rwlock;
};

/* A waiting writer goes before readers that come later, so that an endless sequence of
 * readers does not keep it waiting for ever. */
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

/* Of a reader or of the writer. */
static inline void coxi_rw_unlock(struct coxi_rwlock *lock)
    COXI_RELEASES_ANY(lock) COXI_UNCHECKED
{
    (void)pthread_rwlock_unlock(&lock->rwlock);
}

/* ---- condition variables */

/* For coxi_wait_until with coxi_deadline. */
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

/* Waits once for work: the thread has nothing else to do until it is given some, or
 * told to end, so there is no deadline. Unlocks meanwhile. */
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

/* ---- threads */

/* Starts a thread with a name that ps and gdb show (at most 15 bytes). 0 or
 * COX_ENOMEM. */
int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                      void *arg);

#endif
