/*
 * Blocks: pieces of memory that a stream fills with a file's bytes, and that batches
 * hold for as long as their records point into them. They go back to a pool, so that
 * fresh memory is seldom taken.
 *
 * Threads: a pool and its blocks are one thread's (a reader's).
 */
#ifndef COXI_DATA_BLOCK_H
#define COXI_DATA_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes behind each block's capacity, which its owner may write and parsers may read. */
enum { COXI_BLOCK_PAD = 64 };

struct coxi_block {
    struct coxi_block *next; /* in the pool */
    size_t refs;
    size_t capacity;
    uint8_t *data; /* 64-aligned */
};

/* A zeroed pool is empty. */
struct coxi_block_pool {
    struct coxi_block *spare;
    size_t n_spare;
};

/* A block of at least `capacity` bytes, with one reference. NULL: there is no memory. */
struct coxi_block *coxi_block_new(struct coxi_block_pool *pool, size_t capacity);
void coxi_block_unref(struct coxi_block_pool *pool, struct coxi_block *block);

/* Frees the spare blocks. */
void coxi_block_pool_fini(struct coxi_block_pool *pool);

#endif
