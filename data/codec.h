/*
 * Codecs of RecordIO's payloads: gzip, and Snappy in its framing format
 * (google/snappy, framing_format.txt).
 *
 * Threads: any.
 */
#ifndef COXI_DATA_CODEC_H
#define COXI_DATA_CODEC_H

#include "common/buffer.h"
#include "data/block.h"

/* The numbers are in files. */
enum coxi_codec { COXI_CODEC_NONE = 0, COXI_CODEC_SNAPPY = 1, COXI_CODEC_GZIP = 2 };

/* Decodes (not COXI_CODEC_NONE) into a new block. COX_EFORMAT: the error's text is the
 * reason alone; COX_ECHECKSUM, COX_ELIMIT (more than COXI_RECORD_MAX), COX_ENOMEM. */
int coxi_codec_decode(uint32_t codec, const uint8_t *data, size_t len,
                      struct coxi_block_pool *pool, struct coxi_block **ret,
                      size_t *ret_len);

/* Appends the encoded bytes. COX_ENOMEM. */
int coxi_codec_encode(uint32_t codec, const uint8_t *data, size_t len,
                      struct coxi_buffer *to);

#endif
