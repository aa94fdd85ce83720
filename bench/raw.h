/*
 * Raw blocking sockets: the baselines of `wire` and `schedule`. A message is a 16-byte
 * head {u64 len, u64 answer} and len bytes; the other side answers with `answer` bytes
 * once it has the whole (0: not at all).
 */
#ifndef COXI_BENCH_RAW_H
#define COXI_BENCH_RAW_H

#include "bench/bench.h"

struct raw {
    struct bench_child child;
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

/* Streams messages of `bytes` for about `seconds`; GB/s. */
double raw_bandwidth(struct raw *raw, size_t bytes, double seconds);

/* Requests and answers of `bytes` (64 to RAW_SMALL_MAX), `outstanding` at a time, one
 * write a message; 1/s. */
double raw_requests(struct raw *raw, size_t bytes, int outstanding, double seconds);

/* One at a time; the median in microseconds. */
double raw_round_trip(struct raw *raw, double seconds);

#endif
