/*
 * See memory.h. Under AddressSanitizer memory comes from its allocator, which finds
 * misuse; the memory of killed processes is leaked then.
 *
 * Blocks come from one region at a fixed address, so a seed sees the same addresses in each
 * run. A block has its class in front of it; freed blocks of a class are used again first.
 */
#include "tests/sim/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(COXI_SIM_ARENA)

enum {
    HEADER = 16,
    /* Up to this size there is a class for each multiple of 16 bytes. Above, there are
     * four classes between a power of two and the next. */
    SMALL_MAX = 1024,
    SMALL_CLASSES = SMALL_MAX / 16,
    CLASSES = SMALL_CLASSES + 4 * 24,
    NEVER_AGAIN = CLASSES, /* aligned blocks: their memory is not used again */
};

#define ARENA_AT    ((uint8_t *)UINT64_C(0x200000000000))
#define ARENA_BYTES (UINT64_C(8) << 30)

struct block {
    struct block *next;
};

static struct {
    bool on;
    uint8_t *begin;
    size_t used;
    size_t most;
    struct block *spare[CLASSES];
} arena;

void *__real_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void __real_free(void *at);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void __wrap_free(void *at);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t max);
void *__wrap__Znwm(size_t bytes);
void *__wrap__Znam(size_t bytes);
void __wrap__ZdlPv(void *at);
void __wrap__ZdaPv(void *at);
void __wrap__ZdlPvm(void *at, size_t bytes);

void sim_memory_begin(void)
{
    if (arena.begin == NULL) {
        arena.begin = __real_mmap(
            ARENA_AT, ARENA_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (arena.begin != ARENA_AT) {
            perror("memory for a run");
            abort();
        }
    }
    memset(arena.spare, 0, sizeof(arena.spare));
    arena.used = 0;
    arena.on = true;
}

void sim_memory_end(void)
{
    arena.on = false;
    arena.most = arena.used > arena.most ? arena.used : arena.most;
}

size_t sim_memory_most(void)
{
    return arena.most > arena.used ? arena.most : arena.used;
}

void *sim_real_realloc(void *at, size_t bytes)
{
    return __real_realloc(at, bytes);
}

static bool is_ours(const void *at)
{
    return (const uint8_t *)at >= ARENA_AT &&
           (const uint8_t *)at < ARENA_AT + ARENA_BYTES;
}

static unsigned class_of(size_t bytes)
{
    if (bytes <= SMALL_MAX) {
        return bytes == 0 ? 0 : (unsigned)((bytes - 1) / 16);
    }
    unsigned doubling =
        63U - (unsigned)__builtin_clzl(bytes - 1); /* 2^d < bytes <= 2^(d+1) */
    size_t quarter = ((bytes - 1) >> (doubling - 2)) & 3;
    return SMALL_CLASSES + 4 * (doubling - 10) + (unsigned)quarter;
}

static size_t bytes_of(unsigned class)
{
    if (class < SMALL_CLASSES) {
        return ((size_t)class + 1) * 16;
    }
    unsigned doubling = 10 + (class - SMALL_CLASSES) / 4;
    size_t quarter = (class - SMALL_CLASSES) % 4;
    return ((size_t)1 << doubling) + ((quarter + 1) << (doubling - 2));
}

static unsigned *header_of(void *at)
{
    return (unsigned *)(void *)((uint8_t *)at - HEADER);
}

static uint8_t *take(size_t bytes)
{
    uint8_t *at = arena.begin + arena.used;
    arena.used += (bytes + 15) / 16 * 16;
    if (arena.used > ARENA_BYTES) {
        (void)fprintf(stderr, "a run has more than %zu bytes\n", (size_t)ARENA_BYTES);
        abort();
    }
    return at;
}

void *__wrap_malloc(size_t bytes)
{
    if (!arena.on) {
        return __real_malloc(bytes);
    }
    unsigned class = class_of(bytes);
    struct block *block = arena.spare[class];
    if (block != NULL) {
        arena.spare[class] = block->next;
        return block;
    }
    uint8_t *at = take(HEADER + bytes_of(class)) + HEADER;
    *header_of(at) = class;
    return at;
}

void __wrap_free(void *at)
{
    if (!is_ours(at)) {
        __real_free(at);
        return;
    }
    unsigned class = *header_of(at);
    if (arena.on && class != NEVER_AGAIN) {
        struct block *block = at;
        block->next = arena.spare[class];
        arena.spare[class] = block;
    }
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    size_t all;
    if (!arena.on) {
        return __real_calloc(n, bytes);
    }
    if (__builtin_mul_overflow(n, bytes, &all)) {
        return NULL;
    }
    void *at = __wrap_malloc(all);
    memset(at, 0, all);
    return at;
}

void *__wrap_realloc(void *at, size_t bytes)
{
    if (at == NULL) {
        return __wrap_malloc(bytes);
    }
    if (!is_ours(at)) {
        return __real_realloc(at, bytes);
    }
    size_t had = bytes_of(*header_of(at));
    if (bytes <= had) {
        return at;
    }
    void *more = __wrap_malloc(bytes);
    memcpy(more, at, had);
    __wrap_free(at);
    return more;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (!arena.on) {
        void *at = NULL;
        return posix_memalign(&at, alignment, bytes) == 0 ? at : NULL;
    }
    uintptr_t at = (uintptr_t)take(HEADER + alignment + bytes) + HEADER;
    at = (at + alignment - 1) / alignment * alignment;
    *header_of((void *)at) = NEVER_AGAIN;
    return (void *)at;
}

char *__wrap_strndup(const char *text, size_t max)
{
    size_t len = strnlen(text, max);
    char *copy = __wrap_malloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, SIZE_MAX);
}

void *__wrap__Znwm(size_t bytes)
{
    return __wrap_malloc(bytes);
}

void *__wrap__Znam(size_t bytes)
{
    return __wrap_malloc(bytes);
}

void __wrap__ZdlPv(void *at)
{
    __wrap_free(at);
}

void __wrap__ZdaPv(void *at)
{
    __wrap_free(at);
}

void __wrap__ZdlPvm(void *at, size_t bytes)
{
    (void)bytes;
    __wrap_free(at);
}

#else

void sim_memory_begin(void)
{
}

void sim_memory_end(void)
{
}

size_t sim_memory_most(void)
{
    return 0;
}

void *sim_real_realloc(void *at, size_t bytes)
{
    return realloc(at, bytes);
}

#endif
