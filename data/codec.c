/* See codec.h. */
#include "data/codec.h"

#include <string.h>
#include <zlib.h>

#include "common/error.h"
#include "data/snappy_frames.h"
#include "data/stream.h"

enum { GZIP_ONLY = 16 + MAX_WBITS, MEM_LEVEL = 8 };

/* ---- gzip */

/* Gives the block twice its capacity. */
static int enlarge(struct coxi_block_pool *pool, struct coxi_block **block, size_t used)
{
    size_t capacity = 2 * (*block)->capacity;
    if ((*block)->capacity >= COXI_RECORD_MAX) {
        return coxi_error(COX_ELIMIT, "inflates to more than %zu MiB",
                          COXI_RECORD_MAX >> 20);
    }
    struct coxi_block *larger = coxi_block_new(pool, capacity);
    if (larger == NULL) {
        return coxi_error_memory("a chunk");
    }
    memcpy(larger->data, (*block)->data, used);
    coxi_block_unref(pool, *block);
    *block = larger;
    return 0;
}

/* Inflates all members. */
static int inflate_all(z_stream *z, struct coxi_block_pool *pool,
                       struct coxi_block **block, size_t *used)
{
    for (;;) {
        z->next_out = (*block)->data + *used;
        z->avail_out = (uInt)((*block)->capacity - *used);
        int code = inflate(z, Z_NO_FLUSH);
        *used = (*block)->capacity - z->avail_out;
        if (code == Z_STREAM_END && z->avail_in == 0) {
            return 0;
        }
        if (code == Z_STREAM_END && inflateReset(z) == Z_OK) {
            continue;
        }
        if (code == Z_MEM_ERROR) {
            return coxi_error_memory("a chunk");
        }
        if ((code != Z_OK && code != Z_BUF_ERROR) || z->avail_out > 0) {
            return coxi_error(COX_EFORMAT, "its gzip data: %s",
                              z->msg != NULL ? z->msg : "cut off");
        }
        int r = enlarge(pool, block, *used);
        if (r != 0) {
            return r;
        }
    }
}

static int gzip_decode(const uint8_t *data, size_t len, struct coxi_block_pool *pool,
                       struct coxi_block **ret, size_t *ret_len)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)len};
    size_t used = 0;
    size_t guess = 4 * len + 64;
    struct coxi_block *block =
        coxi_block_new(pool, guess < COXI_RECORD_MAX ? guess : COXI_RECORD_MAX);
    if (block == NULL || inflateInit2(&z, GZIP_ONLY) != Z_OK) {
        coxi_block_unref(pool, block);
        return coxi_error_memory("a chunk");
    }
    int r = inflate_all(&z, pool, &block, &used);
    (void)inflateEnd(&z);
    if (r != 0) {
        coxi_block_unref(pool, block);
        return r;
    }
    *ret = block;
    *ret_len = used;
    return 0;
}

static int gzip_encode(const uint8_t *data, size_t len, struct coxi_buffer *to)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)len};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_ONLY, MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return coxi_error_memory("a chunk");
    }
    size_t most = deflateBound(&z, len);
    int r = coxi_buffer_reserve(to, most);
    if (r == 0) {
        z.next_out = to->data + to->len;
        z.avail_out = (uInt)most;
        r = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : coxi_error_memory("a chunk");
        to->len += most - z.avail_out;
    }
    (void)deflateEnd(&z);
    return r;
}

/* ---- both */

static int snappy_decode(const uint8_t *data, size_t len, struct coxi_block_pool *pool,
                         struct coxi_block **ret, size_t *ret_len)
{
    size_t bytes;
    int r = coxi_snappy_length(data, len, &bytes);
    if (r != 0) {
        return r;
    }
    struct coxi_block *block = coxi_block_new(pool, bytes);
    if (block == NULL) {
        return coxi_error_memory("a chunk");
    }
    r = coxi_snappy_decode(data, len, block->data);
    if (r != 0) {
        coxi_block_unref(pool, block);
        return r;
    }
    *ret = block;
    *ret_len = bytes;
    return 0;
}

int coxi_codec_decode(uint32_t codec, const uint8_t *data, size_t len,
                      struct coxi_block_pool *pool, struct coxi_block **ret,
                      size_t *ret_len)
{
    return codec == COXI_CODEC_GZIP ? gzip_decode(data, len, pool, ret, ret_len)
                                    : snappy_decode(data, len, pool, ret, ret_len);
}

int coxi_codec_encode(uint32_t codec, const uint8_t *data, size_t len,
                      struct coxi_buffer *to)
{
    switch (codec) {
    case COXI_CODEC_GZIP:
        return gzip_encode(data, len, to);
    case COXI_CODEC_SNAPPY:
        return coxi_snappy_encode(data, len, to);
    default:
        return coxi_buffer_append_raw(to, data, len);
    }
}
