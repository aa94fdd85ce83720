/* See memory.h. */
#include "ps/memory.h"

#include <sys/sysinfo.h>

#include "common/error.h"

void coxi_memory_init(struct coxi_memory *memory)
{
    struct sysinfo host;
    atomic_init(&memory->used_bytes, 0);
    memory->whole = NULL;
    memory->max_bytes = 0;
    memory->host_bytes =
        sysinfo(&host) == 0 ? ((uint64_t)host.totalram + host.totalswap) * host.mem_unit
                            : 0;
}

int coxi_memory_take(struct coxi_memory *memory, uint64_t bytes, const char *whom)
{
    uint64_t used = atomic_load(&memory->used_bytes);
    if (memory->host_bytes > 0 && bytes > memory->host_bytes) {
        return coxi_error(
            COX_ENOMEM,
            "%s would need %llu bytes on this ps, whose host has %llu: use "
            "more ps, on more hosts",
            whom, (unsigned long long)bytes, (unsigned long long)memory->host_bytes);
    }
    do {
        if (memory->max_bytes > 0 &&
            (used > memory->max_bytes || bytes > memory->max_bytes - used)) {
            return coxi_error(COX_ENOMEM,
                              "%s would need %llu bytes more, but of the %llu bytes of "
                              "--memory-max %llu are in use: raise it, or use more ps",
                              whom, (unsigned long long)bytes,
                              (unsigned long long)memory->max_bytes,
                              (unsigned long long)used);
        }
    } while (!atomic_compare_exchange_weak(&memory->used_bytes, &used, used + bytes));
    if (memory->whole != NULL && coxi_memory_take(memory->whole, bytes, whom) != 0) {
        atomic_fetch_sub(&memory->used_bytes, bytes);
        return COX_ENOMEM;
    }
    return 0;
}

void coxi_memory_give(struct coxi_memory *memory, uint64_t bytes)
{
    for (; memory != NULL; memory = memory->whole) {
        atomic_fetch_sub(&memory->used_bytes, bytes);
    }
}
