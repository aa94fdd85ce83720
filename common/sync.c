/* See sync.h. */
#include "common/sync.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

enum { LOOKS = 16, TRY_AGAIN = 64 };

atomic_uint coxi_patience_ms = COXI_PATIENCE_MS;

/* `attr` NULL: a thread as the system makes them. */
static int start(pthread_t *ret, const pthread_attr_t *attr, const char *name,
                 void *(*run)(void *), void *arg)
{
    /* Signals belong to the program's own threads, never to ours. */
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(ret, attr, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed != 0) {
        char reason[128];
        return coxi_error(COX_ENOMEM, "cannot start thread %s: %s", name,
                          strerror_r(failed, reason, sizeof(reason)));
    }
    char short_name[16];
    (void)snprintf(short_name, sizeof(short_name), "%s", name);
    (void)pthread_setname_np(*ret, short_name);
    return 0;
}

int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
    return start(ret, NULL, name, run, arg);
}

int coxi_thread_start_small(pthread_t *ret, const char *name, void *(*run)(void *),
                            void *arg)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) {
        return coxi_error_memory("a thread");
    }
    (void)pthread_attr_setstacksize(&attr, COXI_STACK_SMALL);
    int r = start(ret, &attr, name, run, arg);
    (void)pthread_attr_destroy(&attr);
    return r;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg)
{
    if (linger->ns == 0) {
        linger->ns = linger->n++ % TRY_AGAIN == 0 ? limits->first_ns : 0;
        if (linger->ns == 0) {
            return false;
        }
    }
    uint64_t until_ns = coxi_now_ns() + linger->ns;
    bool found = have(arg);
    while (!found && coxi_now_ns() < until_ns) {
        for (int i = 0; i < LOOKS && !found; i++) {
            relax();
            found = have(arg);
        }
        if (!found && limits->yields) {
            (void)sched_yield();
        }
    }
    uint32_t longer = linger->ns * 2;
    linger->ns = !found                     ? linger->ns / 4
                 : longer < limits->most_ns ? longer
                                            : limits->most_ns;
    return found;
}
