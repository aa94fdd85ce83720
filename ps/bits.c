/* See bits.h. A segment gets its memory when its first row is added. Cost: a load and
 * an atomic operation for each call. */
#include "ps/bits.h"

#include <stdatomic.h>

/* An item is a word of 64 rows. */
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

/* The word that holds the row's bit; NULL if its segment has no memory yet. */
static _Atomic(uint64_t) *word_of(const struct coxi_bits *bits, uint32_t row)
{
    struct coxi_stretch_place place =
        coxi_stretch_locate(&bits->words, row >> WORD_BITS);
    uint8_t *segment = coxi_stretch_segment(&bits->words, &place);
    return segment == NULL ? NULL : (_Atomic(uint64_t) *)(void *)segment + place.offset;
}

void coxi_bits_drop(struct coxi_bits *bits, uint32_t row)
{
    _Atomic(uint64_t) *word = word_of(bits, row);
    if (word != NULL) {
        (void)atomic_fetch_and_explicit(word, ~bit_of(row), memory_order_relaxed);
    }
}

/* Finds the words from number *word on that lie in one segment (NULL: that segment does
 * not exist), and moves *word past them. False: there are no more. */
static bool next_words(const struct coxi_bits *bits, uint64_t *word,
                       _Atomic(uint64_t) **ret, size_t *ret_n)
{
    if (*word > UINT32_MAX >> WORD_BITS) {
        return false;
    }
    struct coxi_stretch_place place =
        coxi_stretch_locate(&bits->words, (uint32_t)*word);
    *ret = (_Atomic(uint64_t) *)(void *)coxi_stretch_segment(&bits->words, &place);
    *ret_n = (size_t)1 << place.bits;
    *word += *ret_n;
    return true;
}

int coxi_bits_merge(struct coxi_bits *bits, const struct coxi_bits *other)
{
    _Atomic(uint64_t) *from;
    size_t n;
    int r = 0;
    for (uint64_t word = 0, first = 0; r == 0 && next_words(other, &word, &from, &n);
         first = word) {
        if (from == NULL) {
            continue;
        }
        r = coxi_stretch_reserve(&bits->words, (uint32_t)first, 1);
        _Atomic(uint64_t) *to =
            r == 0 ? word_of(bits, (uint32_t)first << WORD_BITS) : NULL;
        for (size_t i = 0; r == 0 && i < n; i++) {
            atomic_store_explicit(
                &to[i],
                atomic_load_explicit(&to[i], memory_order_relaxed) |
                    atomic_load_explicit(&from[i], memory_order_relaxed),
                memory_order_relaxed);
        }
    }
    return r;
}

uint64_t coxi_bits_count(const struct coxi_bits *bits)
{
    _Atomic(uint64_t) *words;
    uint64_t count = 0;
    size_t n;
    for (uint64_t word = 0; next_words(bits, &word, &words, &n);) {
        for (size_t i = 0; words != NULL && i < n; i++) {
            uint64_t word_bits = atomic_load_explicit(&words[i], memory_order_relaxed);
            count += word_bits == 0 ? 0 : (uint64_t)__builtin_popcountll(word_bits);
        }
    }
    return count;
}

bool coxi_bits_has(const struct coxi_bits *bits, uint32_t row)
{
    const _Atomic(uint64_t) *word = word_of(bits, row);
    return word != NULL &&
           (atomic_load_explicit(word, memory_order_relaxed) & bit_of(row)) != 0;
}
