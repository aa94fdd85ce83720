/*
 * A stream: a source's bytes from front to back, as memory that a parser looks at. If
 * the file's name ends in .gz, they are inflated. Between a source and a parser there is
 * no other buffer.
 *
 * A newline follows `end` in memory at all times; so a parser of text need not compare
 * with `end` at each byte.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_STREAM_H
#define COXI_DATA_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/block.h"
#include "data/source.h"

/* The longest record, line, or chunk. */
#define COXI_RECORD_MAX ((size_t)256 << 20)

struct coxi_inflater;

/* A zeroed stream is a closed one. */
struct coxi_stream {
    const uint8_t *at;  /* the next byte */
    const uint8_t *end; /* behind the last byte in memory */
    uint64_t offset;    /* of `at`, in the file or in its inflated content */
    bool ended;         /* the file has no byte behind `end` */
    const struct coxi_source *source;
    uint64_t bytes; /* of a plain file; UINT64_MAX: not known, because it inflates */
    uint64_t next;  /* offset of the source's next byte to read */
    struct coxi_block_pool *pool;
    struct coxi_block *block; /* has the bytes from `at` to `end` */
    struct coxi_inflater *inflater;
    const atomic_bool *cancelled; /* NULL, or a flag that ends all reading */
};

/* Borrows source, pool and flag. `offset` is 0 if the file is compressed. */
int coxi_stream_open(const struct coxi_source *source, uint64_t offset,
                     struct coxi_block_pool *pool, const atomic_bool *cancelled,
                     struct coxi_stream *ret);
void coxi_stream_close(struct coxi_stream *stream);

/*
 * Sees to it that at least `len` bytes are at `at`, or all that the file has. Pointers
 * to earlier bytes are void then, unless their block is held (coxi_rows_hold). COX_EIO,
 * COX_EFORMAT (does not inflate), COX_ELIMIT: more than COXI_RECORD_MAX, COX_ENOMEM,
 * COX_ECANCELLED.
 */
int coxi_stream_need_more(struct coxi_stream *stream, size_t len);

static inline int coxi_stream_need(struct coxi_stream *stream, size_t len)
{
    return (size_t)(stream->end - stream->at) >= len || stream->ended
               ? 0
               : coxi_stream_need_more(stream, len);
}

/* Makes room for `len` bytes from `at` on, so that they stay where they are while the
 * stream is asked for more and more of them. The file is known to have them. */
int coxi_stream_reserve(struct coxi_stream *stream, size_t len);

/* Moves `at` behind `len` bytes, which are in memory. */
static inline void coxi_stream_skip(struct coxi_stream *stream, size_t len)
{
    stream->at += len;
    stream->offset += len;
}

/* COX_ECANCELLED: the flag is set, so stop reading. */
int coxi_stream_cancelled(const struct coxi_stream *stream);

/* Begins anew at another place of a plain file. */
void coxi_stream_seek(struct coxi_stream *stream, uint64_t offset);

#endif
