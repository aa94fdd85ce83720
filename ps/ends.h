/*
 * The ends of rounds, for those who wait for one. A step may start before the round that
 * it has to see was applied here; then its pull waits for that (ps/pull.c). Who waits
 * looks for what it needs whenever something has changed. Any thread.
 */
#ifndef COXI_PS_ENDS_H
#define COXI_PS_ENDS_H

#include <stdatomic.h>

#include "common/sync.h"

struct coxi_ends {
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t changed;
    atomic_uint_least64_t n_changes; /* changed under the lock */
    uint32_t n_sleeping COXI_GUARDED_BY(lock);
};

void coxi_ends_init(struct coxi_ends *ends);
void coxi_ends_fini(struct coxi_ends *ends);

/* A round has ended, or the store has another owner. */
void coxi_ends_changed(struct coxi_ends *ends);

/* Calls look(arg) after each change, until it returns something else than 0. Returns that,
 * or 0 after timeout_ms. `n_changes`: read before the caller has looked for itself. */
int coxi_ends_await(struct coxi_ends *ends, uint64_t n_changes, int timeout_ms,
                    int (*look)(void *arg), void *arg);

#endif
