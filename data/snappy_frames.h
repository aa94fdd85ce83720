/*
 * Snappy's framing format (google/snappy, framing_format.txt): an identifier, then
 * chunks of u8 type | u24 length | data. Data chunks hold at most 65,536 bytes each, with
 * a masked crc32c before them.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_SNAPPY_FRAMES_H
#define COXI_DATA_SNAPPY_FRAMES_H

#include "common/buffer.h"

/* The number of bytes that the frames decode to. COX_EFORMAT: the text is the reason;
 * COX_ELIMIT: more than COXI_RECORD_MAX. */
int coxi_snappy_length(const uint8_t *data, size_t len, size_t *ret);

/* Decodes frames of which coxi_snappy_length told the length. COX_EFORMAT,
 * COX_ECHECKSUM. */
int coxi_snappy_decode(const uint8_t *data, size_t len, uint8_t *to);

/* Appends frames. COX_ENOMEM. */
int coxi_snappy_encode(const uint8_t *data, size_t len, struct coxi_buffer *to);

#endif
