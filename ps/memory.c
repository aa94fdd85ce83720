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
    memory->is_quota = false;
    memory->host_bytes =
        sysinfo(&host) == 0 ? ((uint64_t)host.totalram + host.totalswap) * host.mem_unit
                            : 0;
}

static int is_full(const struct coxi_memory *memory, uint64_t bytes, uint64_t used,
                   const char *whom)
{
    return coxi_error(memory->is_quota ? COX_ELIMIT : COX_ENOMEM,
                      "%s would need %llu bytes more, but of the %llu bytes of %s %llu "
                      "are in use: raise it, or use more ps",
                      whom, (unsigned long long)bytes,
                      (unsigned long long)memory->max_bytes,
                      memory->is_quota ? "this run (--run-bytes-max)" : "--memory-max",
                      (unsigned long long)used);
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
            return is_full(memory, bytes, used, whom);
        }
    } while (!atomic_compare_exchange_weak(&memory->used_bytes, &used, used + bytes));
    int r = memory->whole != NULL ? coxi_memory_take(memory->whole, bytes, whom) : 0;
    if (r != 0) {
        atomic_fetch_sub(&memory->used_bytes, bytes);
    }
    return r;
}

void coxi_memory_give(struct coxi_memory *memory, uint64_t bytes)
{
    for (; memory != NULL; memory = memory->whole) {
        atomic_fetch_sub(&memory->used_bytes, bytes);
    }
}

int coxi_memory_reserve(struct coxi_memory *memory, struct coxi_buffer *buffer,
                        size_t more, const char *whom)
{
    size_t had = buffer->capacity;
    size_t need = coxi_buffer_need(buffer, more);
    if (memory == NULL || need <= had) {
        return coxi_buffer_reserve(buffer, more);
    }
    int r = coxi_memory_take(memory, need - had, whom);
    if (r == 0) {
        r = coxi_buffer_reserve(buffer, more);
        coxi_memory_give(memory, r == 0 ? 0 : need - had);
    }
    return r;
}

void coxi_memory_free(struct coxi_memory *memory, struct coxi_buffer *buffer)
{
    coxi_memory_give(memory, buffer->capacity);
    coxi_buffer_fini(buffer);
}
