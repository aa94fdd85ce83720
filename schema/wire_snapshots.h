/* Messages about snapshots, and about their bytes on the way: see wire.fbs. Include wire.h
 * instead. */
#ifndef COXI_SCHEMA_WIRE_SNAPSHOTS_H
#define COXI_SCHEMA_WIRE_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The lanes of a carry, and the most bytes of a piece: of a snapshot, and of a restore. */
enum {
    COXI_CARRY_LANES = 4,
    COXI_CARRY_PIECE_MAX = 1 << 20,
    COXI_CARRY_BLOCK = 256 << 10,
};

struct coxi_exchanged {
    int32_t code;
    const char *message;
    uint64_t offset;
    uint32_t len;
    bool over;
};

struct coxi_interval {
    uint64_t first;
    uint64_t last;
    uint32_t segment;
    uint32_t ends;       /* 1: the last segment of its closures */
    uint32_t touched_at; /* index in the list of ps that comes with the intervals */
    uint32_t touched_n;
};

struct coxi_snapshot_done {
    int32_t code;
    const char *message;
    uint64_t bytes;
    uint32_t crc32;
    uint64_t watermark;
    const struct coxi_interval *applied;
    size_t n_applied;
    const uint32_t *touched;
    size_t n_touched; /* decoded: no interval refers beyond it */
    /* CPU time of the longest span in which others had to wait for it */
    uint64_t held_us_max;
    uint64_t saved_bytes; /* memory of copies, made because values changed meanwhile */
    /* the snapshot that it builds on; 0: none, it has everything */
    uint64_t base;
};

#endif
