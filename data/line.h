/*
 * Lines of text: what the formats whose records are lines share. A line ends with a
 * newline, the last one also with the file.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_LINE_H
#define COXI_DATA_LINE_H

#include <string.h>

#include "coxswain/types.h"
#include "data/format.h"

/* A parser of lines looks for the first one from here on (coxi_format.before). */
enum { COXI_LINE_BEFORE = 1 };

struct coxi_line {
    const uint8_t *at;
    size_t len;      /* without its newline, which follows in memory in any case */
    uint64_t offset; /* in the file */
};

/* coxi_format.sync: moves behind the next newline. */
int coxi_line_sync(struct coxi_parser *parser);

/* As below, if the line is not all in memory. */
int coxi_line_read(struct coxi_parser *parser, struct coxi_line *ret);

/* Appends the next line, with the newline between, to the line that was taken last.
 * COX_EEOF: there is none. */
int coxi_line_extend(struct coxi_parser *parser, struct coxi_line *line);

/* Goes back to the place behind the first `len` bytes of the line that was taken last. */
void coxi_line_back(struct coxi_parser *parser, const struct coxi_line *line,
                    size_t len);

/* Takes the task's next line; it stays in memory until the next call. COX_EEOF: the
 * task has no more. COX_ELIMIT and others: coxi_stream_need. */
static inline int coxi_line_next(struct coxi_parser *parser, struct coxi_line *ret)
{
    struct coxi_stream *stream = parser->stream;
    size_t have = (size_t)(stream->end - stream->at);
    const uint8_t *end =
        have > 0 ? (const uint8_t *)memchr(stream->at, '\n', have) : NULL;
    if (stream->offset >= parser->end || end == NULL) {
        return coxi_line_read(parser, ret);
    }
    *ret = (struct coxi_line){stream->at, (size_t)(end - stream->at), stream->offset};
    coxi_stream_skip(stream, ret->len + 1);
    return 0;
}

#endif
