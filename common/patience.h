/*
 * A wait that may last: a log line after 10 s says what is waited for, and more of them, at
 * longer intervals, while the wait goes on. A zeroed struct is a wait that begins.
 *
 *     struct coxi_patience patience = {0};
 *     while (!there) {
 *         (void)pthread_cond_timedwait(&changed, &lock, &slice);
 *         if (coxi_patience_ends(&patience, coxi_now_ms())) {
 *             coxi_log(COXI_LOG_WARN, "waiting", "for=... seconds=%llu", ...);
 *         }
 *     }
 *
 * One thread at a time.
 */
#ifndef COXI_COMMON_PATIENCE_H
#define COXI_COMMON_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { COXI_PATIENCE_MS = 10000 };

struct coxi_patience {
    uint64_t since_ms; /* the first look */
    uint64_t next_ms;  /* when to say it the next time */
};

/* True 10 s after the first look, then 20, 40, 80 ... s after it: say what is waited for.
 * `now_ms` is coxi_now_ms(). */
static inline bool coxi_patience_ends(struct coxi_patience *patience, uint64_t now_ms)
{
    if (patience->since_ms == 0) {
        patience->since_ms = now_ms;
        patience->next_ms = now_ms + COXI_PATIENCE_MS;
    }
    if (now_ms < patience->next_ms) {
        return false;
    }
    patience->next_ms = now_ms + (now_ms - patience->since_ms);
    return true;
}

/* How long it has lasted, in seconds. */
static inline uint64_t coxi_patience_seconds(const struct coxi_patience *patience,
                                             uint64_t now_ms)
{
    return patience->since_ms == 0 ? 0 : (now_ms - patience->since_ms) / 1000;
}

#endif
