/* See sync.h. */
#include "common/sync.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

int coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg)
{
    /* Signals belong to the program's own threads, never to ours. */
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(ret, NULL, run, arg);
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
