/*
 * See format_recordio.h. Chunks are frames. A chunk whose checksum holds, but which does
 * not decode or whose records do not fill it, is one bad record; those of its records
 * that came before the defect count.
 */
#include "data/format_recordio.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "common/error.h"
#include "data/codec.h"
#include "data/content.h"
#include "data/frames.h"
#include "data/recordio.h"

enum { LENGTH = 4, PREFETCH_BYTES = 1024 };

struct recordio {
    struct coxi_frames frames;
    /* the chunk at hand */
    uint64_t offset;
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    uint32_t left; /* records */
    bool plain;    /* its bytes are the file's */
    struct coxi_block *block;
    struct coxi_block *decoded; /* NULL, or the block if it is ours */
};

/* ---- chunks as frames */

static struct coxi_recordio_head head_of(const uint8_t *bytes)
{
    struct coxi_recordio_head head;
    memcpy(&head, bytes, sizeof(head));
    return head;
}

static bool chunk_payload(const uint8_t *bytes, uint64_t *ret)
{
    struct coxi_recordio_head head = head_of(bytes);
    *ret = head.bytes;
    return head.magic == COXI_RECORDIO_MAGIC && head.codec <= COXI_CODEC_GZIP &&
           (head.codec != COXI_CODEC_NONE || head.records <= head.bytes / LENGTH);
}

static const uint8_t *chunk_candidate(const uint8_t *at, size_t n)
{
    static const uint32_t magic = COXI_RECORDIO_MAGIC;
    uint64_t payload;
    const uint8_t *end = at + n;
    while ((size_t)(end - at) >= COXI_RECORDIO_HEAD &&
           (at = memmem(at, (size_t)(end - at), &magic, sizeof(magic))) != NULL &&
           (size_t)(end - at) >= COXI_RECORDIO_HEAD) {
        if (chunk_payload(at, &payload)) {
            return at;
        }
        at++;
    }
    return NULL;
}

static uint32_t chunk_expected(const uint8_t *head, const uint8_t *tail)
{
    (void)tail;
    return head_of(head).crc;
}

static const struct coxi_frame_kind chunks = {.head = COXI_RECORDIO_HEAD,
                                              .payload = chunk_payload,
                                              .candidate = chunk_candidate,
                                              .sum = coxi_crc32,
                                              .expected = chunk_expected,
                                              .name = "chunk"};

/* ---- records */

static int recordio_open(struct coxi_parser *parser)
{
    struct recordio *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a reader");
    }
    file->frames.kind = &chunks;
    file->frames.parser = parser;
    parser->state = file;
    return coxi_content_open(parser);
}

static void recordio_close(struct coxi_parser *parser)
{
    struct recordio *file = parser->state;
    coxi_content_close(parser);
    if (file != NULL) {
        coxi_block_unref(parser->stream->pool, file->decoded);
        coxi_frames_fini(&file->frames);
        free(file);
    }
}

static int recordio_sync(struct coxi_parser *parser)
{
    struct recordio *file = parser->state;
    return coxi_frames_sync(&file->frames);
}

/* Drops the rest of the chunk. */
static void drop_chunk(struct recordio *file)
{
    file->at = file->end;
    file->left = 0;
}

static int decode(struct coxi_parser *parser, uint32_t codec,
                  const struct coxi_frame *frame)
{
    struct recordio *file = parser->state;
    size_t len = 0;
    int r = coxi_codec_decode(codec, frame->payload, frame->len, parser->stream->pool,
                              &file->decoded, &len);
    if (r == COX_ENOMEM) {
        return r;
    }
    if (r != 0) {
        char reason[COXI_REASON_MAX + 1];
        (void)strncpy(reason, coxi_error_text(), sizeof(reason) - 1);
        reason[COXI_REASON_MAX] = '\0';
        drop_chunk(file);
        return coxi_bad_record(parser->bad, r, frame->offset, "%s", reason);
    }
    file->block = file->decoded;
    file->at = file->decoded->data;
    file->end = file->at + len;
    return 0;
}

static int next_chunk(struct coxi_parser *parser)
{
    struct recordio *file = parser->state;
    struct coxi_frame frame;
    coxi_block_unref(parser->stream->pool, file->decoded);
    file->decoded = NULL;
    int r = coxi_frames_next(&file->frames, &frame);
    if (r != 0) {
        return r;
    }
    struct coxi_recordio_head head = head_of(frame.head);
    file->offset = frame.offset;
    file->left = head.records;
    file->plain = head.codec == COXI_CODEC_NONE;
    file->block = frame.block;
    file->at = frame.payload;
    file->end = frame.payload + frame.len;
    r = file->plain ? 0 : decode(parser, head.codec, &frame);
    file->begin = file->at;
    return r;
}

/* Where the chunk's next record begins, as far as the file's bytes tell it. */
static uint64_t place_of(const struct recordio *file)
{
    return file->offset +
           (file->plain ? COXI_RECORDIO_HEAD + (uint64_t)(file->at - file->begin) : 0);
}

static int add_record(struct coxi_parser *parser, struct coxi_rows *rows)
{
    struct recordio *file = parser->state;
    uint64_t offset = place_of(file);
    uint32_t len = 0;
    size_t left = (size_t)(file->end - file->at);
    if (left >= LENGTH) {
        memcpy(&len, file->at, LENGTH);
    }
    if (left < LENGTH || len > left - LENGTH) {
        drop_chunk(file);
        return coxi_bad_record(parser->bad, COX_EFORMAT, offset,
                               "a record reaches past its chunk's end");
    }
    const struct cox_bytes record = {file->at + LENGTH, len};
    file->at += LENGTH + len;
    file->left--;
    return coxi_content_add(parser, rows, offset, &record, file->block);
}

/* As many raw records of the chunk as the rows want, without a call for each. Leaves one
 * that is malformed. */
static int add_raw_records(struct recordio *file, struct coxi_rows *rows, size_t n)
{
    const uint8_t *at = file->at;
    size_t want = n - rows->n < file->left ? n - rows->n : file->left;
    uint64_t offset = place_of(file);
    int r = coxi_rows_reserve(rows, want, 0);
    r = r == 0 ? coxi_rows_hold(rows, file->block) : r;
    for (; r == 0 && want > 0; want--) {
        uint32_t len;
        size_t left = (size_t)(file->end - at);
        if (left < LENGTH) {
            break;
        }
        /* Each length tells where the next one is, and the checksum of a long chunk has
         * driven its beginning out of the cache. */
        __builtin_prefetch(left > PREFETCH_BYTES ? at + PREFETCH_BYTES : at);
        memcpy(&len, at, LENGTH);
        if (len > left - LENGTH) {
            break;
        }
        rows->bytes[rows->n] = (struct cox_bytes){at + LENGTH, len};
        coxi_rows_commit(rows, offset + (file->plain ? (uint64_t)(at - file->at) : 0),
                         0);
        file->left--;
        at += LENGTH + len;
    }
    file->at = at;
    return r;
}

static int recordio_parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    struct recordio *file = parser->state;
    int r = 0;
    while (r == 0 && rows->n < n) {
        if (file->left > 0 && parser->decoding->content == COX_RAW) {
            r = add_raw_records(file, rows, n);
        }
        if (r != 0 || rows->n == n) {
            break;
        }
        if (file->left > 0) {
            r = add_record(parser, rows);
        } else if (file->at < file->end) {
            uint64_t offset = place_of(file);
            drop_chunk(file);
            r = coxi_bad_record(parser->bad, COX_EFORMAT, offset,
                                "a chunk has bytes behind its last record");
        } else {
            r = next_chunk(parser);
        }
    }
    return r;
}

const struct coxi_format coxi_format_recordio = {.splits = true,
                                                 .shape = coxi_content_shape,
                                                 .open = recordio_open,
                                                 .close = recordio_close,
                                                 .sync = recordio_sync,
                                                 .parse = recordio_parse};
