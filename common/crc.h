/* zlib's crc32, several times as fast if the processor can multiply polynomials. Any
 * thread. */
#ifndef COXI_COMMON_CRC_H
#define COXI_COMMON_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of bytes with the checksum `crc` (of no bytes: 0) followed by these
 * bytes. */
uint32_t coxi_crc32(uint32_t crc, const void *data, size_t len);

/* The checksum of bytes with the checksum `crc1` followed by `len2` bytes with
 * `crc2`. */
uint32_t coxi_crc32_combine(uint32_t crc1, uint32_t crc2, uint64_t len2);

#endif
