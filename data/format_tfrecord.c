/* See format_tfrecord.h. Records are frames. Cost: the checksums; data is not copied. */
#include "data/format_tfrecord.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/error.h"
#include "data/content.h"
#include "data/frames.h"

enum { LENGTH = 8, HEAD = LENGTH + 4, TAIL = 4 };

static uint32_t sum_at(const uint8_t *p)
{
    uint32_t masked;
    memcpy(&masked, p, sizeof(masked));
    return coxi_crc32c_unmasked(le32toh(masked));
}

static inline bool record_payload(const uint8_t *head, uint64_t *ret)
{
    memcpy(ret, head, sizeof(*ret));
    *ret = le64toh(*ret);
    return coxi_crc32c(0, head, LENGTH) == sum_at(head + LENGTH);
}

static const uint8_t *record_candidate(const uint8_t *at, size_t n)
{
    const uint8_t *end = at + n;
    uint64_t length;
    for (; end - at >= HEAD; at++) {
        memcpy(&length, at, sizeof(length));
        if (le64toh(length) <= COXI_RECORD_MAX && record_payload(at, &length)) {
            return at;
        }
    }
    return NULL;
}

static uint32_t record_expected(const uint8_t *head, const uint8_t *tail)
{
    (void)head;
    return sum_at(tail);
}

static const struct coxi_frame_kind records = {.head = HEAD,
                                               .tail = TAIL,
                                               .payload = record_payload,
                                               .candidate = record_candidate,
                                               .sum = coxi_crc32c,
                                               .expected = record_expected,
                                               .name = "record"};

static int tfrecord_open(struct coxi_parser *parser)
{
    struct coxi_frames *frames = calloc(1, sizeof(*frames));
    if (frames == NULL) {
        return coxi_error_memory("a reader");
    }
    frames->kind = &records;
    frames->parser = parser;
    parser->state = frames;
    return coxi_content_open(parser);
}

static void tfrecord_close(struct coxi_parser *parser)
{
    coxi_content_close(parser);
    if (parser->state != NULL) {
        coxi_frames_fini(parser->state);
    }
    free(parser->state);
}

static int tfrecord_sync(struct coxi_parser *parser)
{
    return coxi_frames_sync(parser->state);
}

/* Takes the record at the stream's place if it is all in memory, which most are. False:
 * it is not, or it is not sound; frames deal with it. */
static inline bool take_record(const struct coxi_parser *parser, struct coxi_frame *ret)
{
    struct coxi_stream *stream = parser->stream;
    const uint8_t *at = stream->at;
    size_t have = (size_t)(stream->end - at);
    uint64_t len;
    if (have < HEAD + TAIL || stream->offset >= parser->end ||
        !record_payload(at, &len) || len > have - HEAD - TAIL ||
        coxi_crc32c(0, at + HEAD, len) != sum_at(at + HEAD + len)) {
        return false;
    }
    *ret =
        (struct coxi_frame){stream->offset, at, at + HEAD, (size_t)len, stream->block};
    coxi_stream_skip(stream, HEAD + (size_t)len + TAIL);
    return true;
}

static int tfrecord_parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_frame frame;
        if (!take_record(parser, &frame)) {
            r = coxi_frames_next(parser->state, &frame);
        }
        if (r == 0) {
            const struct cox_bytes record = {frame.payload, frame.len};
            parser->frame = frame.offset;
            r = coxi_content_add(parser, rows, frame.offset, &record, frame.block);
        }
    }
    return r;
}

const struct coxi_format coxi_format_tfrecord = {.splits = true,
                                                 .shape = coxi_content_shape,
                                                 .open = tfrecord_open,
                                                 .close = tfrecord_close,
                                                 .sync = tfrecord_sync,
                                                 .parse = tfrecord_parse};

/* ---- writing */

static void put_sum(uint8_t *to, const void *data, size_t len)
{
    uint32_t sum = htole32(coxi_crc32c_masked(coxi_crc32c(0, data, len)));
    memcpy(to, &sum, sizeof(sum));
}

int coxi_tfrecord_append(struct coxi_buffer *to, const void *data, size_t len)
{
    uint8_t around[HEAD + TAIL];
    uint64_t length = htole64((uint64_t)len);
    memcpy(around, &length, sizeof(length));
    put_sum(around + LENGTH, around, LENGTH);
    put_sum(around + HEAD, data, len);
    int r = coxi_buffer_reserve(to, len + HEAD + TAIL);
    r = r == 0 ? coxi_buffer_append_raw(to, around, HEAD) : r;
    r = r == 0 ? coxi_buffer_append_raw(to, data, len) : r;
    return r == 0 ? coxi_buffer_append_raw(to, around + HEAD, TAIL) : r;
}
