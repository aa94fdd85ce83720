/*
 * Threads, locks, waits and the clock of the simulated processes, made of fibers and
 * virtual time. The linker replaces the real functions with these
 * (tests/sim/CMakeLists.txt); shared libraries keep the real ones.
 *
 * A lock, condition or once lies in the memory of the real type.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

struct mutex {
    struct sim_fiber *owner;
    struct sim_queue waiting;
};

struct cond {
    struct sim_queue waiting;
};

struct rwlock {
    struct sim_fiber *writer;
    uint64_t n_readers;
    struct sim_queue waiting; /* fibers that check again when it changes */
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "it lies there");
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "it lies there");
_Static_assert(sizeof(struct rwlock) <= sizeof(pthread_rwlock_t), "it lies there");

/* ---- threads */

int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
    *ret = (pthread_t)(uintptr_t)sim_spawn(sim_self_proc(), name, run, arg);
    return 0;
}

int coxi_thread_start_small(pthread_t *ret, const char *name, void *(*run)(void *),
                            void *arg)
{
    return coxi_thread_start(ret, name, run, arg);
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
    struct sim_fiber *fiber = (struct sim_fiber *)(uintptr_t)thread;
    while (!fiber->ended) {
        (void)sim_wait(&fiber->joiners, SIM_NEVER, "a thread's end");
    }
    if (ret != NULL) {
        *ret = fiber->result;
    }
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    ((struct sim_fiber *)(uintptr_t)thread)->detached = true;
    return 0;
}

pthread_t __wrap_pthread_self(void)
{
    return (pthread_t)(uintptr_t)sim_self();
}

int __wrap_pthread_once(pthread_once_t *once, void (*run)(void))
{
    if (*(int *)once == 0) {
        *(int *)once = 1;
        run();
    }
    return 0;
}

int __wrap_sched_yield(void)
{
    sim_yield();
    return 0;
}

atomic_uint coxi_patience_ms = COXI_PATIENCE_MS;

/* Gives other fibers a few turns while it polls, because virtual time does not pass
 * during a poll. */
bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg)
{
    enum { LOOKS = 3 };
    (void)linger;
    (void)limits;
    for (int i = 0; i < LOOKS && !have(arg); i++) {
        sim_yield();
    }
    return have(arg);
}

/* ---- mutexes */

int __wrap_pthread_mutex_init(pthread_mutex_t *at, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(at, 0, sizeof(*at));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *at)
{
    (void)at;
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *at)
{
    struct mutex *mutex = (struct mutex *)at;
    sim_maybe_preempt();
    while (mutex->owner != NULL) {
        if (mutex->owner == sim_self()) {
            abort(); /* it would wait for itself */
        }
        (void)sim_wait(&mutex->waiting, SIM_NEVER, "a lock");
    }
    mutex->owner = sim_self();
    return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *at)
{
    struct mutex *mutex = (struct mutex *)at;
    sim_maybe_preempt();
    if (mutex->owner != NULL) {
        return EBUSY;
    }
    mutex->owner = sim_self();
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *at)
{
    struct mutex *mutex = (struct mutex *)at;
    mutex->owner = NULL;
    if (mutex->waiting.first != NULL) {
        (void)sim_wake_one(&mutex->waiting);
    }
    return 0;
}

/* ---- conditions */

static uint64_t ns_of(const struct timespec *at)
{
    uint64_t s = (uint64_t)at->tv_sec;
    return s > UINT64_C(1000000000) ? SIM_NEVER : s * SIM_S + (uint64_t)at->tv_nsec;
}

int __wrap_pthread_cond_init(pthread_cond_t *at, const pthread_condattr_t *attr)
{
    (void)attr;
    memset(at, 0, sizeof(*at));
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *at)
{
    (void)at;
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *at, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    struct cond *cond = (struct cond *)at;
    (void)__wrap_pthread_mutex_unlock(lock);
    bool woken = sim_wait(&cond->waiting, until != NULL ? ns_of(until) : SIM_NEVER,
                          until != NULL ? "a condition, for a time" : "a condition");
    (void)__wrap_pthread_mutex_lock(lock);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *at, pthread_mutex_t *lock)
{
    return __wrap_pthread_cond_timedwait(at, lock, NULL);
}

int __wrap_pthread_cond_signal(pthread_cond_t *at)
{
    (void)sim_wake_one(&((struct cond *)at)->waiting);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *at)
{
    sim_wake_all(&((struct cond *)at)->waiting);
    return 0;
}

/* ---- locks for readers and writers */

int __wrap_pthread_rwlock_init(pthread_rwlock_t *at, const pthread_rwlockattr_t *attr)
{
    (void)attr;
    memset(at, 0, sizeof(*at));
    return 0;
}

int __wrap_pthread_rwlock_destroy(pthread_rwlock_t *at)
{
    (void)at;
    return 0;
}

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *at)
{
    struct rwlock *lock = (struct rwlock *)at;
    sim_maybe_preempt();
    while (lock->writer != NULL) {
        (void)sim_wait(&lock->waiting, SIM_NEVER, "a lock for reading");
    }
    lock->n_readers++;
    return 0;
}

int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *at)
{
    struct rwlock *lock = (struct rwlock *)at;
    sim_maybe_preempt();
    while (lock->writer != NULL || lock->n_readers > 0) {
        (void)sim_wait(&lock->waiting, SIM_NEVER, "a lock for writing");
    }
    lock->writer = sim_self();
    return 0;
}

int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *at)
{
    struct rwlock *lock = (struct rwlock *)at;
    if (lock->writer != NULL) {
        lock->writer = NULL;
    } else {
        lock->n_readers--;
    }
    sim_wake_all(&lock->waiting);
    return 0;
}

/* ---- the clock, chance, signals */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    uint64_t ns = sim_now();
    ret->tv_sec = (time_t)(ns / SIM_S);
    ret->tv_nsec = (long)(ns % SIM_S);
    if (clock == CLOCK_REALTIME) {
        ret->tv_sec += (time_t)1700000000;
    }
    return 0;
}

uint64_t coxi_random_id(void)
{
    return sim_rand() | 1;
}

/* A process kills itself, or asks to end. */
int __wrap_kill(pid_t pid, int signal)
{
    (void)pid;
    sim_proc_kill(sim_self_proc(), signal);
    return 0;
}

/* A thread that waits for the end of its process. */
int __wrap_pause(void)
{
    (void)sim_wait(NULL, SIM_NEVER, "the end of its process");
    return -1;
}

__attribute__((noreturn)) void __wrap__exit(int code)
{
    (void)code;
    sim_proc_kill(sim_self_proc(), 0);
    abort();
}

/* timer_create and timer_settime are used only to end a process (worker/watch.c). */
int __wrap_timer_create(clockid_t clock, struct sigevent *event, timer_t *ret)
{
    (void)clock;
    (void)event;
    *ret = sim_self_proc();
    return 0;
}

static void end_proc(void *arg)
{
    sim_proc_kill(arg, SIGKILL);
}

int __wrap_timer_settime(timer_t timer, int flags, const struct itimerspec *in,
                         struct itimerspec *ret)
{
    (void)flags;
    (void)ret;
    sim_at(sim_now() + ns_of(&in->it_value), end_proc, timer);
    return 0;
}

pid_t __wrap_getpid(void)
{
    return 4711;
}

/* Destructors of thread-local objects: fibers' memory goes with the run. */
int __wrap___cxa_thread_atexit(void (*run)(void *), void *arg, void *handle)
{
    (void)run;
    (void)arg;
    (void)handle;
    return 0;
}
