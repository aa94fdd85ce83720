/*
 * What the variables and tables of a ps may hold of memory together (--memory-max), and
 * what they do. Any thread; an addition for each commit that makes rows.
 */
#ifndef COXI_PS_MEMORY_H
#define COXI_PS_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

struct coxi_memory {
    uint64_t max_bytes;  /* 0: no limit */
    uint64_t host_bytes; /* what this host has, with its swap; 0: not known */
    atomic_uint_least64_t used_bytes;
};

void coxi_memory_init(struct coxi_memory *memory);

/* COX_ENOMEM: more than this host has is wanted at once (which malloc may promise), or there would be more than may be; nothing is taken, and the text says that it
 * is for `whom` ("table 'name'"), how much it would have needed, and what may be. */
int coxi_memory_take(struct coxi_memory *memory, uint64_t bytes, const char *whom);
void coxi_memory_give(struct coxi_memory *memory, uint64_t bytes);

#endif
