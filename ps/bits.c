/* See bits.h. Memory comes where a row of its own is put in: a load and an atomic operation
 * each. */
#include "ps/bits.h"

#include <stdatomic.h>

/* A word of 64 rows is an item. */
enum { WORD_BITS = 6 };

static uint64_t bit_of(uint32_t row)
{
    return UINT64_C(1) << (row & ((1U << WORD_BITS) - 1));
}

void coxi_bits_init(struct coxi_bits *bits)
{
    coxi_stretch_init(&bits->words, sizeof(uint64_t), (UINT32_MAX >> WORD_BITS) + 1);
}

void coxi_bits_fini(struct coxi_bits *bits)
{
    coxi_stretch_fini(&bits->words);
}

int coxi_bits_put(struct coxi_bits *bits, uint32_t row)
{
    uint32_t word = row >> WORD_BITS;
    int r = coxi_stretch_reserve(&bits->words, word, 1);
    if (r != 0) {
        return r;
    }
    _Atomic(uint64_t) *at =
        (_Atomic(uint64_t) *)(void *)coxi_stretch_at(&bits->words, word);
    uint64_t bit = bit_of(row);
    return (atomic_fetch_or_explicit(at, bit, memory_order_relaxed) & bit) != 0 ? 1 : 0;
}

bool coxi_bits_has(const struct coxi_bits *bits, uint32_t row)
{
    uint32_t word = row >> WORD_BITS;
    struct coxi_stretch_place place = coxi_stretch_locate(&bits->words, word);
    const uint8_t *segment = coxi_stretch_segment(&bits->words, &place);
    if (segment == NULL) {
        return false;
    }
    const _Atomic(uint64_t) *at =
        (const _Atomic(uint64_t) *)(const void *)segment + place.offset;
    return (atomic_load_explicit(at, memory_order_relaxed) & bit_of(row)) != 0;
}
