/*
 * See crc32c.h. The processor's crc32 instruction takes eight bytes. Each must wait for
 * the one before, so long data are first folded (crc_fold.h) down to 16 bytes.
 *
 * Cost: a byte takes 0.05 ns folded, 0.15 ns by the instruction, 0.5 ns by tables.
 */
#include "common/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "common/crc_fold.h"

enum { WORD = 8, TABLES = WORD };

/* tables[k][b]: the remainder of byte b with k zero bytes behind it. */
static uint32_t tables[TABLES][256];

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
        tables[0][b] = crc;
    }
    for (uint32_t b = 0; b < 256; b++) {
        for (size_t k = 1; k < TABLES; k++) {
            uint32_t crc = tables[k - 1][b];
            tables[k][b] = crc >> 8 ^ tables[0][crc & 0xff];
        }
    }
}

uint32_t coxi_crc32c_by_table(uint32_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *p = data;
    (void)pthread_once(&once, make_tables);
    crc = ~crc;
    for (; len >= WORD; len -= WORD, p += WORD) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        word = le64toh(word) ^ crc;
        crc = 0;
        for (size_t k = 0; k < WORD; k++) {
            crc ^= tables[WORD - 1 - k][word >> 8 * k & 0xff];
        }
    }
    for (; len > 0; len--, p++) {
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}

#ifdef __x86_64__
#include <immintrin.h>

#define HAS_CRC __attribute__((target("sse4.2")))
#define FOLDS   __attribute__((target("sse4.2,pclmul")))

HAS_CRC static inline uint32_t crc_words(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t wide = crc;
    for (; len >= WORD; len -= WORD, p += WORD) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len > 0; len--, p++) {
        crc = _mm_crc32_u8(crc, *p);
    }
    return crc;
}

/* The checksum of at least COXI_CRC_BLOCKS blocks; neither `crc` nor the result is
 * inverted. */
FOLDS static uint32_t crc_folded(uint32_t crc, const uint8_t *data, size_t len)
{
    static const struct coxi_crc_numbers numbers = {{0x9e4addf8, 0x740eef02},
                                                    {0x493c7d27, 0xf20c0dfe}};
    uint8_t rest[COXI_CRC_BLOCK];
    size_t at = coxi_crc_fold(&numbers, crc, data, len, rest);
    return crc_words(crc_words(0, rest, sizeof(rest)), data + at, len - at);
}

uint32_t coxi_crc32c(uint32_t crc, const void *data, size_t len)
{
    if (!__builtin_cpu_supports("sse4.2")) {
        return coxi_crc32c_by_table(crc, data, len);
    }
    bool folds = len >= (size_t)2 * COXI_CRC_BLOCKS * COXI_CRC_BLOCK &&
                 __builtin_cpu_supports("pclmul");
    return folds ? ~crc_folded(~crc, data, len) : ~crc_words(~crc, data, len);
}

#else

uint32_t coxi_crc32c(uint32_t crc, const void *data, size_t len)
{
    return coxi_crc32c_by_table(crc, data, len);
}

#endif
