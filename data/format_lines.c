/* See format_lines.h. Cost: each byte is looked at once. */
#include "data/format_lines.h"

#include <stdlib.h>

#include "common/error.h"
#include "data/csv.h"

static struct coxi_rows_shape lines_shape(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_BYTES};
}

/* Decoders leave out such lines. Tabs may be between the fields of CSV and Criteo. */
static bool is_blank(const struct coxi_parser *parser, const struct cox_bytes *line)
{
    uint32_t format = parser->decoding->format;
    if (format == COX_CSV || format == COX_CRITEO) {
        return line->len == 0;
    }
    for (size_t i = 0; i < line->len; i++) {
        if (line->data[i] != ' ' && line->data[i] != '\t') {
            return false;
        }
    }
    return true;
}

/* In CSV, the lines of a record. A malformed one is left out if bad records are; otherwise
 * it is its first line, because lines are copied whatever they contain. */
static int next_line(struct coxi_parser *parser, struct coxi_line *ret)
{
    if (parser->state == NULL) {
        return coxi_line_next(parser, ret);
    }
    const char *reason;
    int r = coxi_csv_next(parser, parser->state, ret, &reason);
    while (r == 0 && reason != NULL && parser->bad->leaves_out) {
        r = coxi_bad_record(parser->bad, COX_EFORMAT, ret->offset, "%s", reason);
        r = r == 0 ? coxi_csv_next(parser, parser->state, ret, &reason) : r;
    }
    return r;
}

static int lines_parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        r = next_line(parser, &line);
        if (r != 0) {
            return r;
        }
        size_t len = line.len;
        len -= len > 0 && line.at[len - 1] == '\r';
        const struct cox_bytes bytes = {line.at, len};
        if (is_blank(parser, &bytes)) {
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

static int lines_open(struct coxi_parser *parser)
{
    struct coxi_csv *csv = NULL;
    if (parser->decoding->format == COX_CSV) {
        csv = calloc(1, sizeof(*csv));
        if (csv == NULL) {
            return coxi_error_memory("a reader");
        }
        csv->separator = (uint8_t)parser->decoding->separator;
    }
    parser->state = csv;
    return csv != NULL && parser->begin == 0 ? coxi_csv_pass_mark(parser->stream) : 0;
}

static void lines_close(struct coxi_parser *parser)
{
    struct coxi_csv *csv = parser->state;
    if (csv != NULL) {
        coxi_csv_fini(csv);
        free(csv);
    }
}

const struct coxi_format coxi_format_lines = {.splits = true,
                                              .before = COXI_LINE_BEFORE,
                                              .shape = lines_shape,
                                              .open = lines_open,
                                              .close = lines_close,
                                              .sync = coxi_line_sync,
                                              .parse = lines_parse};
