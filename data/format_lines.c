/* See format_lines.h. Cost: each byte is looked at once. */
#include "data/format_lines.h"

#include <string.h>

#include "data/line.h"

static struct coxi_rows_shape lines_shape(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_BYTES};
}

/* Where a line of CSV is: quotes count only at the beginning of a field. */
enum place { FIELD, WITHIN_FIELD, QUOTED, BEHIND_QUOTE };

static enum place next_place(enum place place, uint8_t c, uint8_t separator)
{
    if (place == QUOTED) {
        return c == '"' ? BEHIND_QUOTE : QUOTED;
    }
    if (c == separator) {
        return FIELD;
    }
    /* behind a quote a second one is a text's quote */
    return c == '"' && place != WITHIN_FIELD ? QUOTED : WITHIN_FIELD;
}

/* Like coxi_line_next, but a newline within quotes does not end the line. */
static int next_quoted(struct coxi_parser *parser, struct coxi_line *ret)
{
    struct coxi_stream *stream = parser->stream;
    uint8_t separator = (uint8_t)parser->decoding->separator;
    enum place place = FIELD;
    if (stream->offset >= parser->end) {
        return COX_EEOF;
    }
    for (size_t len = 0;; len++) {
        int r = coxi_stream_need(stream, len + 1);
        size_t have = (size_t)(stream->end - stream->at);
        if (r != 0 || have == 0) {
            return r != 0 ? r : COX_EEOF;
        }
        bool ended = len == have;
        if (ended || (stream->at[len] == '\n' && place != QUOTED)) {
            *ret = (struct coxi_line){stream->at, len, stream->offset};
            coxi_stream_skip(stream, len + !ended);
            return 0;
        }
        place = next_place(place, stream->at[len], separator);
    }
}

static bool is_blank(const struct cox_bytes *line)
{
    for (size_t i = 0; i < line->len; i++) {
        if (line->data[i] != ' ' && line->data[i] != '\t') {
            return false;
        }
    }
    return true;
}

static int lines_parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    bool quoted = parser->decoding->format == COX_CSV;
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        r = quoted ? next_quoted(parser, &line) : coxi_line_next(parser, &line);
        if (r != 0) {
            return r;
        }
        size_t len = line.len;
        len -= len > 0 && line.at[len - 1] == '\r';
        const struct cox_bytes bytes = {line.at, len};
        if (is_blank(&bytes)) {
            continue;
        }
        r = coxi_rows_reserve(rows, 1, 0);
        r = r == 0 ? coxi_rows_hold(rows, parser->stream->block) : r;
        if (r == 0) {
            rows->bytes[rows->n] = bytes;
            coxi_rows_commit(rows, line.offset, 0);
        }
    }
    return r;
}

const struct coxi_format coxi_format_lines = {.splits = true,
                                              .before = COXI_LINE_BEFORE,
                                              .shape = lines_shape,
                                              .sync = coxi_line_sync,
                                              .parse = lines_parse};
