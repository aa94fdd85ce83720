/*
 * What the variables and tables of a ps may hold of memory together (--memory-max), and
 * what they do. Any thread; an addition for each commit that makes rows.
 */
#ifndef COXI_PS_MEMORY_H
#define COXI_PS_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

struct coxi_memory {
    uint64_t max_bytes; /* 0: no limit */
    atomic_uint_least64_t used_bytes;
};

/* COX_ENOMEM: there would be more than may be; nothing is taken, and the text says that it
 * is for `whom` ("table 'name'"), how much it would have needed, and what may be. */
int coxi_memory_take(struct coxi_memory *memory, uint64_t bytes, const char *whom);
void coxi_memory_give(struct coxi_memory *memory, uint64_t bytes);

#endif
