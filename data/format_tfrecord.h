/*
 * TFRecord files: a record is
 *
 *     u64 length, u32 checksum of these 8 bytes, data, u32 checksum of the data
 *
 * little-endian; the checksums are masked crc32c (common/crc32c.h).
 */
#ifndef COXI_DATA_FORMAT_TFRECORD_H
#define COXI_DATA_FORMAT_TFRECORD_H

#include "common/buffer.h"
#include "data/format.h"

extern const struct coxi_format coxi_format_tfrecord;

/* Appends a record to a file's bytes, for the tool and for tests. COX_ENOMEM. */
int coxi_tfrecord_append(struct coxi_buffer *to, const void *data, size_t len);

#endif
