/*
 * A relay between real sockets, tcp or ipc, that does to some of its connections what
 * networks do, at places in the stream that a seed chooses. Prints the seed, so that a
 * failure can be played again.
 */
#ifndef COXI_TESTS_NET_RELAY_H
#define COXI_TESTS_NET_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum relay_fault {
    RELAY_CUT,       /* ends a connection, both ways */
    RELAY_TRUNCATE,  /* passes a part of what came, then ends it */
    RELAY_DROP,      /* leaves out what came, and goes on */
    RELAY_DUPLICATE, /* passes what came twice */
    RELAY_FLIP,      /* flips a bit */
    RELAY_DELAY,     /* holds one way back for a moment */
    RELAY_HALF_OPEN, /* passes nothing more one way, without a word */
    RELAY_BYTEWISE,  /* passes single bytes, for a while */
};

struct relay;

struct relay_plan {
    enum relay_fault fault;
    uint64_t seed;
    int n_faults; /* of all connections together */
    /* In each way of a connection: no fault in so many bytes; then one in every
     * `spread` bytes, or somewhat more. 0: values for a run with hundreds of closures. */
    size_t earliest;
    size_t spread;
};

/* Listens, and passes every connection on to `url` (tcp://127.0.0.1:PORT, or
 * ipc:///PATH). */
struct relay *relay_open(const char *url, const struct relay_plan *plan);

/* The address to dial instead of `url`. */
const char *relay_url(const struct relay *relay);

/* How many of the faults have happened. */
int relay_n_happened(struct relay *relay);

/* Causes no faults as long as it rests. */
void relay_rest(struct relay *relay, bool rests);

void relay_close(struct relay *relay);

#endif
