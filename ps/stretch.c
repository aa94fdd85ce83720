/*
 * See stretch.h. Item numbers have 32 bits. Items are grouped in units of 1 <<
 * unit_bits. Each of the first sixteen units is a segment of its own; after that, every
 * eight segments double the number of items.
 */
#include "ps/stretch.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"

#define UNIT_BYTES ((size_t)64 << 10)
#define HUGE_BYTES ((size_t)2 << 20)

void coxi_stretch_init(struct coxi_stretch *stretch, size_t item_bytes, uint32_t max)
{
    *stretch = (struct coxi_stretch){.item_bytes = item_bytes, .max = max, .used = 1};
    while (item_bytes << (stretch->unit_bits + 1) <= UNIT_BYTES) {
        stretch->unit_bits++;
    }
    coxi_mutex_init(&stretch->lock);
}

/* Bytes of a segment, in whole pages of any size. */
static size_t segment_bytes(const struct coxi_stretch *stretch, uint32_t segment)
{
    unsigned shift = segment < 16 ? 0 : segment / 8 - 1;
    return coxi_align(stretch->item_bytes << (shift + stretch->unit_bits), UNIT_BYTES);
}

void coxi_stretch_fini(struct coxi_stretch *stretch)
{
    for (uint32_t i = 0; i < COXI_STRETCH_SEGMENTS; i++) {
        uint8_t *segment = atomic_load(&stretch->segments[i]);
        if (segment != NULL) {
            (void)munmap(segment, segment_bytes(stretch, i));
        }
    }
    coxi_mutex_fini(&stretch->lock);
}

/* Maps new memory; NULL: there is none. Large segments start where a huge page can
 * start. */
static uint8_t *map(size_t bytes)
{
    size_t extra = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    uint8_t *start = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    if (extra == 0) {
        return start;
    }
    size_t before = -(uintptr_t)start & (HUGE_BYTES - 1);
    if (before > 0) {
        (void)munmap(start, before);
    }
    if (before < extra) {
        (void)munmap(start + before + bytes, extra - before);
    }
    return start + before;
}

/* Makes sure that an item has memory. */
static int reserve(struct coxi_stretch *stretch, uint32_t item, double share)
    COXI_REQUIRES(stretch->lock)
{
    struct coxi_stretch_place place = coxi_stretch_locate(stretch, item);
    if (item >= stretch->max) {
        return coxi_error(COX_ELIMIT, "there are %u rows on this ps: use more ps",
                          stretch->max);
    }
    if (atomic_load_explicit(&stretch->segments[place.segment], memory_order_relaxed) !=
        NULL) {
        return 0;
    }
    size_t bytes = segment_bytes(stretch, place.segment);
    uint8_t *segment = map(bytes);
    if (segment == NULL) {
        return coxi_error_memory("rows of a table");
    }
    size_t huge = (size_t)(share * (double)bytes) & ~(HUGE_BYTES - 1);
    if (huge > 0) {
        /* If madvise fails, access is slower but correct. */
        (void)madvise(segment, huge, MADV_HUGEPAGE);
    }
    atomic_store_explicit(&stretch->segments[place.segment], segment,
                          memory_order_release);
    return 0;
}

int coxi_stretch_reserve(struct coxi_stretch *stretch, uint32_t item, double share)
{
    struct coxi_stretch_place place = coxi_stretch_locate(stretch, item);
    if (item < stretch->max && coxi_stretch_segment(stretch, &place) != NULL) {
        return 0;
    }
    coxi_lock(&stretch->lock);
    int r = reserve(stretch, item, share);
    coxi_unlock(&stretch->lock);
    return r;
}

int coxi_stretch_take(struct coxi_stretch *stretch, uint32_t n, uint32_t *ret)
{
    coxi_lock(&stretch->lock);
    uint32_t first = stretch->used;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = reserve(stretch, first + i, 1);
    }
    if (r == 0) {
        stretch->used += n;
        *ret = first;
    }
    coxi_unlock(&stretch->lock);
    return r;
}
