/* What checkpoint.c and checkpoint_pulls.c share. */
#ifndef COXI_BENCH_CHECKPOINT_H
#define COXI_BENCH_CHECKPOINT_H

#include "bench/bench.h"

enum {
    CHECKPOINT_DIM = 16,
    /* In a file, with the state of Adagrad. */
    CHECKPOINT_ROW_BYTES = sizeof(uint64_t) + sizeof(float) * 2 * CHECKPOINT_DIM,
};

/* Seconds that dd conv=fsync takes for so many bytes, which stay at the path. */
double bench_dd(const char *path, uint64_t bytes);

/* Pulls while snapshots are written, beside raw sockets while dd writes. */
void bench_checkpoint_pulls(struct bench *bench);

#endif
