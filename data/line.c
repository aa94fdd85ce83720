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

/* Takes the line at the stream's place, whose first `seen` bytes have no newline that
 * ends it. */
static int read_from(struct coxi_stream *stream, size_t seen, struct coxi_line *ret)
{
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

int coxi_line_read(struct coxi_parser *parser, struct coxi_line *ret)
{
    return parser->stream->offset < parser->end ? read_from(parser->stream, 0, ret)
                                                : COX_EEOF;
}

int coxi_line_extend(struct coxi_parser *parser, struct coxi_line *line)
{
    struct coxi_stream *stream = parser->stream;
    size_t taken = (size_t)(stream->offset - line->offset);
    if (taken == line->len) { /* it ended with the file */
        return COX_EEOF;
    }
    coxi_line_back(parser, line, 0);
    return read_from(stream, taken, line);
}

void coxi_line_back(struct coxi_parser *parser, const struct coxi_line *line,
                    size_t len)
{
    struct coxi_stream *stream = parser->stream;
    stream->at = line->at;
    stream->offset = line->offset;
    coxi_stream_skip(stream, len);
}
