/*
 * Counts the memory of the variables and tables of a run, and of all runs of a ps, and
 * bounds it (--memory-max). Any thread. Cost: one addition for each commit that makes rows.
 */
#ifndef COXI_PS_MEMORY_H
#define COXI_PS_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

struct coxi_memory {
    struct coxi_memory *whole; /* its bytes count there, too; NULL: nowhere */
    uint64_t max_bytes;        /* 0: no limit */
    bool is_quota;             /* the bound is that of one run (--run-bytes-max) */
    uint64_t host_bytes;       /* the memory of this host, with swap; 0: unknown */
    atomic_uint_least64_t used_bytes;
};

/* No limit; counts nowhere else. */
void coxi_memory_init(struct coxi_memory *memory);

/* Counts more bytes. COX_ENOMEM: this host does not have that many bytes (although
 * malloc may promise them), or the sum would exceed the bound; COX_ELIMIT: it would
 * exceed a quota. Then nothing is counted, and the text names `whom` ("table 'name'"), the bytes and the bound. */
int coxi_memory_take(struct coxi_memory *memory, uint64_t bytes, const char *whom);
void coxi_memory_give(struct coxi_memory *memory, uint64_t bytes);

/* Like coxi_buffer_reserve, for a buffer that grows only by this function: counts all
 * that it has. `memory` NULL: counts nothing. */
int coxi_memory_reserve(struct coxi_memory *memory, struct coxi_buffer *buffer,
                        size_t more, const char *whom);
void coxi_memory_free(struct coxi_memory *memory, struct coxi_buffer *buffer);

#endif
