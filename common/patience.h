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
#ifndef COXI_COMMON_PATIENCE_H
#define COXI_COMMON_PATIENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/sync.h"

enum { COXI_PATIENCE_MS = 10000 };

/* COXI_PATIENCE_MS for waits that begin now; tests shorten it. */
extern atomic_uint coxi_patience_ms;

struct coxi_patience {
    uint64_t since_ms; /* the first look */
    uint64_t next_ms;  /* when to say it next */
    bool ended;
};

/* True 10 s after the first look, then 20, 40, 80 ... s after it: tell what the thread
 * waits for. `now_ms` is coxi_now_ms(). */
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

/* Waits once, at most until patience ends. True: it has ended, say what is waited for.
 * Unlocks meanwhile. */
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

#endif
