/* zlib's crc32, several times as fast if the processor can multiply polynomials. Any
 * thread. */
#ifndef COXI_COMMON_CRC_H
#define COXI_COMMON_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: `crc` is that of the bytes before `data` (0 if there are none).
 * Returns that of all bytes. */
uint32_t coxi_crc32(uint32_t crc, const void *data, size_t len);

/* Joins two checksums: `crc1` is that of some bytes, `crc2` that of the `len2` bytes
 * that follow them. Returns that of all bytes. */
uint32_t coxi_crc32_combine(uint32_t crc1, uint32_t crc2, uint64_t len2);

#endif
