/*
 * Locks and condition variables with the choices of this project: monotonic deadlines,
 * failure to initialize is lack of memory.
 */
#ifndef COXI_COMMON_SYNC_H
#define COXI_COMMON_SYNC_H

#include <pthread.h>

#include "common/clock.h"

/* A condition variable for pthread_cond_timedwait with coxi_deadline. */
static inline void coxi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static inline void coxi_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

static inline void coxi_unlock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

/* Starts a thread with a name that ps and gdb show (at most 15 bytes). 0 or
 * COX_ENOMEM. */
int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                      void *arg);

#endif
