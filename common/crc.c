/*
 * See crc.h. Long data are folded (crc_fold.h). zlib processes the last 16 bytes, and on
 * processors that cannot fold all bytes.
 *
 * Cost: a byte takes zlib 0.5 to 1 ns, folding a tenth of that.
 */
#include "common/crc.h"

#include <stdbool.h>
#include <zlib.h>

#include "common/crc_fold.h"

static uint32_t crc_plain(uint32_t crc, const uint8_t *data, size_t len)
{
    return len > 0 ? (uint32_t)crc32_z(crc, data, len) : crc;
}

#ifdef __x86_64__

/* The checksum of at least COXI_CRC_BLOCKS blocks. */
COXI_CRC_FOLDS static uint32_t crc_folded(uint32_t crc, const uint8_t *data, size_t len)
{
    static const struct coxi_crc_numbers numbers = {{0x1c6e41596, 0x154442bd4},
                                                    {0x0ccaa009e, 0x1751997d0}};
    uint8_t rest[COXI_CRC_BLOCK];
    size_t at = coxi_crc_fold(&numbers, ~crc, data, len, rest);
    /* Give zlib a value whose inverse is 0: zlib inverts it. */
    return crc_plain(crc_plain(UINT32_MAX, rest, sizeof(rest)), data + at, len - at);
}

uint32_t coxi_crc32(uint32_t crc, const void *data, size_t len)
{
    bool folds = len >= (size_t)COXI_CRC_BLOCKS * COXI_CRC_BLOCK &&
                 __builtin_cpu_supports("pclmul");
    return folds ? crc_folded(crc, data, len) : crc_plain(crc, data, len);
}

#else

uint32_t coxi_crc32(uint32_t crc, const void *data, size_t len)
{
    return crc_plain(crc, data, len);
}

#endif

uint32_t coxi_crc32_combine(uint32_t crc1, uint32_t crc2, uint64_t len2)
{
    return (uint32_t)crc32_combine(crc1, crc2, (z_off_t)len2);
}
