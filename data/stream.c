/*
 * See stream.h. A block holds PIECE bytes and the rest of a record before them; a longer
 * record gets a block of its own size, whose memory grows with the bytes that are there,
 * and not with what a file claims.
 *
 * Cost: a source's bytes are written once. The rest of a record, and only this, is moved.
 */
#include "data/stream.h"

#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "data/inflater.h"
#include "data/name.h"

/* So that blocks are alike, and one serves as another. */
enum { ROUND_BYTES = 64 << 10 };

static size_t piece_of(const struct coxi_stream *stream)
{
    size_t piece = stream->source->kind->piece;
    return piece > 0 ? piece : COXI_PIECE_BYTES;
}

static int open_plain(struct coxi_stream *stream)
{
    struct coxi_file_mark mark = {0};
    int r = stream->source->kind->stat(stream->source->self, &mark);
    stream->bytes = mark.bytes;
    return r;
}

int coxi_stream_open(const struct coxi_source *source, uint64_t offset,
                     struct coxi_block_pool *pool, const atomic_bool *cancelled,
                     struct coxi_stream *ret)
{
    struct coxi_stream stream = {.offset = offset,
                                 .source = source,
                                 .bytes = UINT64_MAX,
                                 .next = offset,
                                 .pool = pool,
                                 .cancelled = cancelled};
    int r = coxi_name_inflates(source->name) ? coxi_inflater_new(&stream.inflater)
                                             : open_plain(&stream);
    if (r == 0) {
        *ret = stream;
    }
    return r;
}

void coxi_stream_close(struct coxi_stream *stream)
{
    coxi_block_unref(stream->pool, stream->block);
    coxi_inflater_free(stream->inflater);
    *stream = (struct coxi_stream){0};
}

void coxi_stream_seek(struct coxi_stream *stream, uint64_t offset)
{
    stream->at = stream->end;
    stream->offset = offset;
    stream->next = offset;
    stream->ended = false;
}

/* The room behind `have` bytes: it doubles with them, so that each byte of a long record is
 * moved about once. */
static size_t more_than(const struct coxi_stream *stream, size_t have)
{
    size_t piece = piece_of(stream);
    size_t most = have < COXI_RECORD_MAX ? COXI_RECORD_MAX - have : 0;
    size_t more = have < most ? have : most;
    return more > piece ? more : piece;
}

/* Sees to it that `len` bytes fit from `at` on, and some bytes behind those that are
 * there. */
static int make_room(struct coxi_stream *stream, size_t len)
{
    size_t have = (size_t)(stream->end - stream->at);
    struct coxi_block *block = stream->block;
    if (block == NULL || block->refs > 1 || block->capacity < len) {
        size_t least = have + more_than(stream, have);
        block = coxi_block_new(stream->pool,
                               coxi_align(len > least ? len : least, ROUND_BYTES));
        if (block == NULL) {
            return coxi_error_memory(stream->source->name);
        }
    }
    if (have > 0) {
        memmove(block->data, stream->at, have);
    }
    if (block != stream->block) {
        coxi_block_unref(stream->pool, stream->block);
    }
    stream->block = block;
    stream->at = block->data;
    stream->end = block->data + have;
    block->data[have] = '\n';
    return 0;
}

/* Reads at least a byte behind `end`, where there is room, unless the file ends. */
static int read_on(struct coxi_stream *stream)
{
    size_t used = (size_t)(stream->end - stream->block->data);
    uint8_t *to = stream->block->data + used;
    size_t room = stream->block->capacity - used;
    size_t piece = piece_of(stream);
    size_t got = 0;
    int r;
    room = room < 2 * piece ? room : piece;
    if (stream->inflater != NULL) {
        r = coxi_inflater_read(stream->inflater, stream->source, &stream->next, to,
                               room, &got);
    } else {
        r = coxi_source_read(stream->source, stream->next, to, room, &got);
        stream->next += got;
    }
    if (r == 0) {
        stream->ended = got < room;
        stream->end = to + got;
        to[got] = '\n';
    }
    return r;
}

/* The room for `len` bytes: without a size of the file the memory doubles as its bytes
 * come. */
static size_t room_for(const struct coxi_stream *stream, size_t len)
{
    size_t most = 2 * (size_t)(stream->end - stream->at) + piece_of(stream);
    return stream->inflater != NULL && len > most ? most : len;
}

int coxi_stream_cancelled(const struct coxi_stream *stream)
{
    return stream->cancelled != NULL &&
                   atomic_load_explicit(stream->cancelled, memory_order_relaxed)
               ? coxi_error(COX_ECANCELLED, "%s: its reader was closed",
                            stream->source->name)
               : 0;
}

/* Bytes that others hold are not moved; to append to them does no harm. */
static bool has_room(const struct coxi_stream *stream, size_t len)
{
    const struct coxi_block *block = stream->block;
    return block != NULL && (size_t)(block->data + block->capacity - stream->at) >= len;
}

int coxi_stream_need_more(struct coxi_stream *stream, size_t len)
{
    int r = 0;
    if (len > COXI_RECORD_MAX) {
        return coxi_error(COX_ELIMIT, "%s:%llu: a record or chunk of more than %zu MiB",
                          stream->source->name, (unsigned long long)stream->offset,
                          COXI_RECORD_MAX >> 20);
    }
    while (r == 0 && !stream->ended && (size_t)(stream->end - stream->at) < len) {
        size_t room = room_for(stream, len);
        r = coxi_stream_cancelled(stream);
        if (r == 0 && !has_room(stream, room)) {
            r = make_room(stream, room);
        }
        r = r == 0 ? read_on(stream) : r;
    }
    return r;
}

int coxi_stream_reserve(struct coxi_stream *stream, size_t len)
{
    return has_room(stream, len) ? 0 : make_room(stream, len);
}
