/* CRC-32C (Castagnoli; iSCSI's): the checksum of TFRecord files and of Snappy's frames.
 * Any thread. */
#ifndef COXI_COMMON_CRC32C_H
#define COXI_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: `crc` is that of the bytes before `data` (0 if there are none).
 * Returns that of all bytes. Uses the processor's instructions if it has them. */
uint32_t coxi_crc32c(uint32_t crc, const void *data, size_t len);

/* The same without such instructions. */
uint32_t coxi_crc32c_by_table(uint32_t crc, const void *data, size_t len);

/* A checksum as files store it, so that the checksum of bytes that have checksums among
 * them is not weak. */
static inline uint32_t coxi_crc32c_masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static inline uint32_t coxi_crc32c_unmasked(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;
    return rotated >> 17 | rotated << 15;
}

#endif
