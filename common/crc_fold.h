/*
 * For crc.c and crc32c.c only: on a processor with a carry-less multiplication, each 64
 * bytes are folded onto the next 64 bytes, which then have the same remainder as both
 * together. The method: Gopal and others, "Fast CRC Computation for Generic Polynomials
 * Using PCLMULQDQ", Intel 2009. The numbers depend on the polynomial.
 */
#ifndef COXI_COMMON_CRC_FOLD_H
#define COXI_COMMON_CRC_FOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#include <immintrin.h>

#define COXI_CRC_FOLDS __attribute__((target("pclmul")))

enum { COXI_CRC_BLOCK = 16, COXI_CRC_BLOCKS = 4 };

static inline __m128i coxi_crc_load(const uint8_t *data)
{
    return _mm_loadu_si128((const __m128i *)(const void *)data);
}

/* Folds x onto `next`. The constants `by` determine how many bytes `next` comes after
 * x. */
COXI_CRC_FOLDS static inline __m128i coxi_crc_fold_one(__m128i x, __m128i by,
                                                       __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The numbers of a polynomial: for folding by four blocks, and by one. */
struct coxi_crc_numbers {
    long long by_four[2];
    long long by_one[2];
};

/*
 * Folds at least COXI_CRC_BLOCKS blocks down to the 16 bytes in `ret_rest`, which with the
 * bytes behind the returned length have the remainder that all data have behind `crc`
 * (not inverted). Nothing precedes them.
 */
COXI_CRC_FOLDS static inline size_t
coxi_crc_fold(const struct coxi_crc_numbers *numbers, uint32_t crc, const uint8_t *data,
              size_t len, uint8_t ret_rest[COXI_CRC_BLOCK])
{
    const __m128i by_four = _mm_set_epi64x(numbers->by_four[0], numbers->by_four[1]);
    const __m128i by_one = _mm_set_epi64x(numbers->by_one[0], numbers->by_one[1]);
    __m128i x[COXI_CRC_BLOCKS];
    for (size_t i = 0; i < COXI_CRC_BLOCKS; i++) {
        x[i] = coxi_crc_load(data + i * COXI_CRC_BLOCK);
    }
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
    size_t at = sizeof(x);
    for (; len - at >= sizeof(x); at += sizeof(x)) {
        for (size_t i = 0; i < COXI_CRC_BLOCKS; i++) {
            x[i] = coxi_crc_fold_one(x[i], by_four,
                                     coxi_crc_load(data + at + i * COXI_CRC_BLOCK));
        }
    }
    for (size_t i = 1; i < COXI_CRC_BLOCKS; i++) {
        x[0] = coxi_crc_fold_one(x[0], by_one, x[i]);
    }
    for (; len - at >= COXI_CRC_BLOCK; at += COXI_CRC_BLOCK) {
        x[0] = coxi_crc_fold_one(x[0], by_one, coxi_crc_load(data + at));
    }
    _mm_storeu_si128((__m128i *)(void *)ret_rest, x[0]);
    return at;
}

#endif
#endif
