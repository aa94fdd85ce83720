/*
 * Raw blocking sockets: the baselines of links. A message is a head {u64 len, u64
 * answer, u64 applied} and len bytes. The other side answers with `answer` bytes (0:
 * not at all) once it has received the whole message and has applied its first
 * `applied` floats as gradients to an array of its own.
 */
#ifndef COXI_BENCH_RAW_H
#define COXI_BENCH_RAW_H

#include "bench/bench.h"

struct raw {
    struct bench_child child;
    bool tcp;
    bool joined; /* the child belongs to another struct raw */
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

/* Opens another connection to the other side of `raw`; close it before `raw`. */
void raw_join(const struct raw *raw, struct raw *ret);

/* Streams messages of `bytes` bytes for about `seconds`, applied or not; GB/s. */
double raw_bandwidth(struct raw *raw, size_t bytes, bool applied, double seconds);

/* Sends one such message, which is applied, and waits for its answer. */
void raw_push(struct raw *raw, size_t bytes);

/* Sends a small request; waits for its answer. */
void raw_ask(struct raw *raw);
void raw_await(struct raw *raw);

/* Sends requests of `bytes` bytes (64 to RAW_SMALL_MAX), which have answers of the same
 * size, `outstanding` at a time, with one write for each; 1/s. */
double raw_requests(struct raw *raw, size_t bytes, int outstanding, double seconds);

/* Sends one small request at a time; returns the median in microseconds. */
double raw_round_trip(struct raw *raw, double seconds);

#endif
