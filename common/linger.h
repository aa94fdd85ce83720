/*
 * A look for what is about to come, before a thread sleeps until it has: where that takes less
 * than a sleep and a wake-up, the look saves both. How long a thread looks follows what its looks
 * have brought: longer while they find something, down to not at all but for one in 64 times.
 *
 * One thread at a time for each struct. Zeroed: it has not looked yet.
 */
#ifndef COXI_COMMON_LINGER_H
#define COXI_COMMON_LINGER_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_linger {
    uint32_t ns; /* of the next look */
    uint32_t n;  /* looks that were asked for while that is 0 */
};

/* What looks take at first, and at most. */
struct coxi_linger_limits {
    uint32_t first_ns;
    uint32_t most_ns;
    bool yields; /* between looks other threads may have the core */
};

/* True once `have` is; it is called again and again. False: it was not in time. */
bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg);

#endif
