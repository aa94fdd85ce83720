/* CRC-32C (Castagnoli; iSCSI's), the checksum of TFRecord files. Any thread. */
#ifndef COXI_COMMON_CRC32C_H
#define COXI_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: `crc` is that of the bytes before `data` (0 if there are none).
 * Returns that of all bytes. Uses the processor's instructions if it has them. */
uint32_t coxi_crc32c(uint32_t crc, const void *data, size_t len);

/* The same without such instructions. */
uint32_t coxi_crc32c_by_table(uint32_t crc, const void *data, size_t len);

/* TFRecord's form of a checksum: so that the checksum of bytes that contain their own
 * checksum is no constant. */
static inline uint32_t coxi_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
