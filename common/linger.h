/*
 * Lets a thread look for something that is about to come, before it sleeps until it has
 * come. If it comes sooner than a sleep and a wake-up take, the look saves both. The
 * time of a look follows the success of earlier looks: it grows while they find
 * something. If they find nothing, it shrinks to 0; then only one look in 64 is made.
 *
 * One thread at a time for each struct. Zeroed: it has not looked yet.
 */
#ifndef COXI_COMMON_LINGER_H
#define COXI_COMMON_LINGER_H

#include <stdbool.h>
#include <stdint.h>

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

/* Calls `have` again and again; true when it returns true. False: it did not come in
 * time. */
bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg);

#endif
