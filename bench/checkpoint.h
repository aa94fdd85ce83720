/* Shared by checkpoint.c and checkpoint_pulls.c. */
#ifndef COXI_BENCH_CHECKPOINT_H
#define COXI_BENCH_CHECKPOINT_H

#include "bench/bench.h"

enum {
    CHECKPOINT_DIM = 16,
    /* bytes in a file, with the state of Adagrad */
    CHECKPOINT_ROW_BYTES = sizeof(uint64_t) + sizeof(float) * 2 * CHECKPOINT_DIM,
};

/* Seconds that dd conv=fsync takes to write `bytes` bytes; the file stays at `path`. */
double bench_dd(const char *path, uint64_t bytes);

/* Measures pulls while snapshots are written, and raw sockets while dd writes. */
void bench_checkpoint_pulls(struct bench *bench);

#endif
