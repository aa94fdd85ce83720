/* See line.h. Cost: each byte is looked at once, also those of a long line. */
#include "data/line.h"

#include "common/error.h"

int coxi_line_sync(struct coxi_parser *parser)
{
    struct coxi_stream *stream = parser->stream;
    while (stream->offset < parser->end) {
        int r = coxi_stream_need(stream, 1);
        size_t have = (size_t)(stream->end - stream->at);
        if (r != 0 || have == 0) {
            return r != 0 ? r : COX_EEOF;
        }
        const uint8_t *end = memchr(stream->at, '\n', have);
        coxi_stream_skip(stream, end != NULL ? (size_t)(end - stream->at) + 1 : have);
        if (end != NULL) {
            return stream->offset < parser->end ? 0 : COX_EEOF;
        }
    }
    return COX_EEOF;
}

int coxi_line_read(struct coxi_parser *parser, struct coxi_line *ret)
{
    struct coxi_stream *stream = parser->stream;
    size_t seen = 0;
    if (stream->offset >= parser->end) {
        return COX_EEOF;
    }
    for (;;) {
        int r = coxi_stream_need(stream, seen + 1);
        size_t have = (size_t)(stream->end - stream->at);
        if (r != 0) {
            return r;
        }
        const uint8_t *end =
            have > seen ? memchr(stream->at + seen, '\n', have - seen) : NULL;
        seen = have;
        if (end != NULL || stream->ended) {
            size_t len = end != NULL ? (size_t)(end - stream->at) : have;
            *ret = (struct coxi_line){stream->at, len, stream->offset};
            coxi_stream_skip(stream, len + (end != NULL));
            return have > 0 ? 0 : COX_EEOF;
        }
    }
}
