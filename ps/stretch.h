/*
 * An array that grows to billions of items and never moves one: a stretch of memory in
 * segments, each an eighth of all segments before it. The place of an item follows from
 * its number with a handful of instructions and a pointer out of a small directory.
 *
 * Memory comes from the kernel, zeroed, and takes room only when it is touched. Large
 * segments ask for huge pages, because with random access most of the time would
 * otherwise go into finding pages.
 */
#ifndef COXI_PS_STRETCH_H
#define COXI_PS_STRETCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sync.h"

enum { COXI_STRETCH_SEGMENTS = 240 };

struct coxi_stretch {
    size_t item_bytes;
    uint32_t max;       /* item numbers are below it */
    unsigned unit_bits; /* the first segments hold 1 << unit_bits items */
    uint32_t used;      /* items that coxi_stretch_take has given; guarded by lock */
    struct coxi_mutex lock; /* guards growth; leaf */
    _Atomic(uint8_t *) segments[COXI_STRETCH_SEGMENTS];
};

/* The place of an item: `offset` items into a segment of 1 << bits. */
struct coxi_stretch_place {
    uint32_t segment;
    uint32_t offset;
    unsigned bits;
};

/* An array for items of `item_bytes` bytes, with numbers below `max`. The first
 * segments have 64 KiB or one item. */
void coxi_stretch_init(struct coxi_stretch *stretch, size_t item_bytes, uint32_t max);
void coxi_stretch_fini(struct coxi_stretch *stretch);

/* Makes sure that there is memory for `item`. Only the first part `share` of the bytes
 * of its segment will be used. COX_ENOMEM, COX_ELIMIT. Any thread. */
int coxi_stretch_reserve(struct coxi_stretch *stretch, uint32_t item, double share);

/* Gives n (1 to 64) items that nobody has, with successive numbers from *ret on. The
 * first number is 1. COX_ENOMEM, COX_ELIMIT. Any thread. */
int coxi_stretch_take(struct coxi_stretch *stretch, uint32_t n, uint32_t *ret);

static inline struct coxi_stretch_place
coxi_stretch_locate(const struct coxi_stretch *stretch, uint32_t item)
{
    uint32_t unit = item >> stretch->unit_bits;
    unsigned shift = 28 - (unsigned)__builtin_clz(unit | 8);
    unsigned bits = shift + stretch->unit_bits;
    return (struct coxi_stretch_place){
        .segment = shift * 8 + (unit >> shift),
        .offset = item & (uint32_t)((UINT64_C(1) << bits) - 1),
        .bits = bits,
    };
}

/* The segment of a place that was reserved. */
static inline uint8_t *coxi_stretch_segment(const struct coxi_stretch *stretch,
                                            const struct coxi_stretch_place *place)
{
    return atomic_load_explicit(&stretch->segments[place->segment],
                                memory_order_acquire);
}

/* The item with a number that was reserved or taken. */
static inline uint8_t *coxi_stretch_at(const struct coxi_stretch *stretch,
                                       uint32_t item)
{
    struct coxi_stretch_place place = coxi_stretch_locate(stretch, item);
    return coxi_stretch_segment(stretch, &place) + place.offset * stretch->item_bytes;
}

#endif
