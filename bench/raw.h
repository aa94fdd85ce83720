/*
 * Raw blocking sockets: the baselines of what goes over links. A message is a head
 * {u64 len, u64 answer, u64 applied} and len bytes; the other side answers with `answer`
 * bytes once it has the whole (0: not at all), and has applied its first `applied` floats
 * as gradients to an array of its own.
 */
#ifndef COXI_BENCH_RAW_H
#define COXI_BENCH_RAW_H

#include "bench/bench.h"

struct raw {
    struct bench_child child;
    bool tcp;
    bool joined; /* the child is another's */
    int fd;
    uint8_t *payload; /* RAW_MAX bytes */
};

enum {
    RAW_MAX = 64 * 1024 * 1024,
    RAW_OUTSTANDING_MAX = 1024,
    RAW_SMALL_MAX = 16 * 1024
};

void raw_open(struct bench *bench, bool tcp, struct raw *ret);
void raw_close(struct raw *raw);

/* One more connection to the other side of `raw`, to be closed before that. */
void raw_join(const struct raw *raw, struct raw *ret);

/* Streams messages of `bytes` for about `seconds`, applied or not; GB/s. */
double raw_bandwidth(struct raw *raw, size_t bytes, bool applied, double seconds);

/* One such message, applied, and its answer. */
void raw_push(struct raw *raw, size_t bytes);

/* A small request; its answer. */
void raw_ask(struct raw *raw);
void raw_await(struct raw *raw);

/* Requests and answers of `bytes` (64 to RAW_SMALL_MAX), `outstanding` at a time, one
 * write a message; 1/s. */
double raw_requests(struct raw *raw, size_t bytes, int outstanding, double seconds);

/* One at a time; the median in microseconds. */
double raw_round_trip(struct raw *raw, double seconds);

#endif
