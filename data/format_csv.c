/* See format_csv.h. Cost: 2 to 3 ns a byte. Texts are copied only to halve quotes. */
#include "data/format_csv.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "data/columns.h"
#include "data/line.h"
#include "data/number.h"

enum { FIELDS_AT_FIRST = 64, FIELDS_MAX = 1 << 20 };

/* A field of the record at hand; offsets from its beginning. */
struct span {
    size_t begin;
    size_t end;
    bool doubled; /* it has doubled quotes */
};

struct csv {
    uint8_t separator;
    size_t header_fields; /* 0: there is no header */
    uint32_t *places;     /* [n_columns]: the number of each column's field */
    size_t n_keys;        /* of a record */

    /* the record at hand */
    struct span *spans;
    size_t n;
    size_t capacity;
    bool within; /* quotes are open in the last span */
};

/* ---- splitting a record into fields */

enum split { SPLIT, OPEN, MALFORMED, NO_MEMORY };

static bool add_span(struct csv *csv, size_t begin, size_t end)
{
    if (csv->n == csv->capacity) {
        size_t capacity = csv->capacity > 0 ? 2 * csv->capacity : FIELDS_AT_FIRST;
        struct span *spans = reallocarray(csv->spans, capacity, sizeof(*spans));
        if (spans == NULL) {
            return false;
        }
        csv->spans = spans;
        csv->capacity = capacity;
    }
    csv->spans[csv->n++] = (struct span){begin, end, false};
    return true;
}

/* Goes on within quotes to the end of the field. SPLIT: *at is behind its quote. */
static enum split split_quoted(struct csv *csv, const uint8_t *record, size_t *at,
                               size_t end)
{
    struct span *span = &csv->spans[csv->n - 1];
    csv->within = true;
    for (;;) {
        const uint8_t *quote = memchr(record + *at, '"', end - *at);
        if (quote == NULL) {
            *at = end;
            return OPEN;
        }
        *at = (size_t)(quote - record) + 1;
        if (*at == end || record[*at] != '"') {
            break;
        }
        span->doubled = true;
        ++*at;
    }
    csv->within = false;
    span->end = *at - 1;
    return SPLIT;
}

static size_t find_separator(const struct csv *csv, const uint8_t *record, size_t at,
                             size_t end)
{
    while (at < end && record[at] != csv->separator) {
        at++;
    }
    return at;
}

/* Splits the bytes from `at` to `end`, where a line ends. OPEN: that is within quotes. */
static enum split split(struct csv *csv, const uint8_t *record, size_t at, size_t end)
{
    for (;; at++) { /* behind a separator */
        bool quoted = csv->within || (at < end && record[at] == '"');
        if (!csv->within && !add_span(csv, at + quoted, end)) {
            return NO_MEMORY;
        }
        if (!quoted) {
            at = find_separator(csv, record, at, end);
            csv->spans[csv->n - 1].end = at;
        } else {
            at += !csv->within;
            enum split r = split_quoted(csv, record, &at, end);
            if (r != SPLIT) {
                return r;
            }
        }
        if (at == end) {
            return SPLIT;
        }
        if (record[at] != csv->separator || csv->n == FIELDS_MAX) {
            return MALFORMED;
        }
    }
}

/* The length of a line without a CR at its end. */
static size_t without_return(const struct coxi_line *line)
{
    return line->len - (line->len > 0 && line->at[line->len - 1] == '\r');
}

static const char *reason_of(const struct csv *csv, enum split result)
{
    return result == OPEN         ? "a quote is not closed"
           : csv->n == FIELDS_MAX ? "too many fields"
                                  : "text behind a field's closing quote";
}

/* The line's end is within quotes: goes on with the next line. COX_EEOF: there is
 * none. */
static int go_on(struct coxi_parser *parser, struct coxi_line *line)
{
    uint64_t behind = parser->stream->offset;
    bool has_newline = behind > line->offset + line->len;
    if (has_newline && behind >= parser->end) {
        return coxi_error(COX_EFORMAT,
                          "%s:%" PRIu64
                          ": a newline within quotes is where the file is "
                          "cut: let task_bytes be larger than the file",
                          parser->bad->file, line->offset);
    }
    return coxi_line_extend(parser, line);
}

/* Takes the next record that has fields, and splits it. *reason: NULL, or why it is
 * malformed; then the parser goes on at its second line. */
static int take_record(struct coxi_parser *parser, struct csv *csv,
                       struct coxi_line *line, const char **reason)
{
    int r;
    *reason = NULL;
    do {
        r = coxi_line_next(parser, line);
        if (r != 0) {
            return r;
        }
    } while (without_return(line) == 0);
    size_t first = (size_t)(parser->stream->offset - line->offset);
    size_t at = 0;
    csv->n = 0;
    csv->within = false;
    for (;;) {
        size_t end = without_return(line);
        enum split result = split(csv, line->at, at, end);
        if (result == NO_MEMORY) {
            return coxi_error_memory("the fields of a record");
        }
        if (result == SPLIT) {
            return 0;
        }
        at = end;
        r = result == OPEN ? go_on(parser, line) : COX_EEOF;
        if (r != 0) {
            *reason = reason_of(csv, result);
            coxi_line_back(parser, line, first);
            return r == COX_EEOF ? 0 : r;
        }
    }
}

/* ---- the header */

static bool is_named(const struct span *span, const uint8_t *record, const char *name)
{
    size_t len = strlen(name);
    return span->end - span->begin == len &&
           memcmp(record + span->begin, name, len) == 0;
}

/* The number of the field with this name. */
static int find_name(const struct coxi_parser *parser, const struct csv *csv,
                     const uint8_t *record, const char *name, uint32_t *ret)
{
    size_t found = 0;
    for (size_t i = 0; i < csv->n; i++) {
        if (is_named(&csv->spans[i], record, name)) {
            found++;
            *ret = (uint32_t)i;
        }
    }
    return found == 1 ? 0
                      : coxi_error(COX_EFORMAT, "%s:0: its header has %s column '%s'",
                                   parser->bad->file,
                                   found == 0 ? "no" : "more than one", name);
}

/* Passes a byte order mark. */
static int pass_mark(struct coxi_stream *stream)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};
    int r = coxi_stream_need(stream, sizeof(mark));
    if (r == 0 && (size_t)(stream->end - stream->at) >= sizeof(mark) &&
        memcmp(stream->at, mark, sizeof(mark)) == 0) {
        coxi_stream_skip(stream, sizeof(mark));
    }
    return r;
}

/* Takes the header from a parser at the file's beginning. */
static int take_header(struct coxi_parser *parser, struct csv *csv)
{
    const struct coxi_decoding *decoding = parser->decoding;
    const char *reason;
    struct coxi_line line;
    int r = pass_mark(parser->stream);
    if (r != 0 || decoding->header == 0) {
        return r;
    }
    r = take_record(parser, csv, &line, &reason);
    if (r == 0 && reason != NULL) {
        r = coxi_error(COX_EFORMAT, "%s:0: its header: %s", parser->bad->file, reason);
    }
    for (uint32_t i = 0; r == 0 && i < decoding->n_columns; i++) {
        r = find_name(parser, csv, line.at, decoding->columns[i].name, &csv->places[i]);
    }
    csv->header_fields = csv->n;
    return r;
}

/* The header, for a task that begins inside the file. */
static int read_header(const struct coxi_parser *parser, struct csv *csv)
{
    struct coxi_stream stream;
    struct coxi_parser head = *parser;
    int r = coxi_stream_open(parser->stream->source, 0, parser->stream->pool,
                             parser->stream->cancelled, &stream);
    if (r == 0) {
        head.stream = &stream;
        head.end = UINT64_MAX;
        r = take_header(&head, csv);
        coxi_stream_close(&stream);
    }
    return r;
}

/* ---- records */

/* A field's text, with each doubled quote halved. NULL: there is no memory. */
static const uint8_t *text_of(struct coxi_rows *rows, const uint8_t *record,
                              const struct span *span, size_t *ret_len)
{
    const uint8_t *from = record + span->begin;
    size_t len = span->end - span->begin;
    *ret_len = len;
    if (!span->doubled) {
        return from;
    }
    uint8_t *to = coxi_rows_copy_room(rows, len);
    size_t n = 0;
    for (size_t i = 0; to != NULL && i < len; i++) {
        to[n++] = from[i];
        i += from[i] == '"';
    }
    *ret_len = n;
    return to;
}

/* Takes a number, with spaces around it. False: the field is no number. */
static bool fill_number(struct coxi_filling *filling, const struct cox_column *column,
                        const uint8_t *at, const uint8_t *end)
{
    float *to = coxi_filling_numbers(filling, column);
    float x;
    while (at < end && *at == ' ') {
        at++;
    }
    while (at < end && end[-1] == ' ') {
        end--;
    }
    if (at == end) {
        *to = column->missing;
        return true;
    }
    if (!coxi_number_float(&at, &x) || at != end) {
        return false;
    }
    *to = coxi_column_number(column, x);
    return true;
}

/* 0; COX_EFORMAT: the field does not fit; COX_ENOMEM. */
static int fill_column(struct coxi_filling *filling, const struct cox_column *column,
                       const uint8_t *record, const struct span *span)
{
    struct coxi_rows *rows = filling->rows;
    bool is_text = column->kind == COX_COLUMN_KEY || column->kind == COX_COLUMN_BYTES;
    if (!is_text) {
        return fill_number(filling, column, record + span->begin, record + span->end)
                   ? 0
                   : COX_EFORMAT;
    }
    size_t len;
    const uint8_t *text = text_of(rows, record, span, &len);
    if (text == NULL) {
        return coxi_error_memory("a batch");
    }
    if (column->kind == COX_COLUMN_BYTES) {
        rows->bytes[rows->n] = (struct cox_bytes){text, len};
    } else {
        coxi_filling_text(filling, column, text, len);
        filling->field++;
    }
    return 0;
}

static int add_record(struct coxi_parser *parser, struct coxi_rows *rows,
                      const struct coxi_line *line)
{
    struct csv *csv = parser->state;
    struct coxi_filling filling;
    if (csv->header_fields > 0 && csv->n != csv->header_fields) {
        return coxi_bad_record(parser->bad, COX_EFORMAT, line->offset,
                               "%zu field%s, and the header has %zu", csv->n,
                               coxi_s(csv->n), csv->header_fields);
    }
    int r = coxi_filling_begin(&filling, rows, csv->n_keys);
    r = r == 0 && rows->bytes != NULL ? coxi_rows_hold(rows, parser->stream->block) : r;
    for (uint32_t i = 0; r == 0 && i < parser->decoding->n_columns; i++) {
        const struct cox_column *column = &parser->decoding->columns[i];
        uint32_t place = csv->places[i];
        if (place >= csv->n) {
            return coxi_bad_record(parser->bad, COX_EFORMAT, line->offset,
                                   "%zu field%s, and none is '%s'", csv->n,
                                   coxi_s(csv->n), column->name);
        }
        r = fill_column(&filling, column, line->at, &csv->spans[place]);
        if (r == COX_EFORMAT) {
            return coxi_bad_record(parser->bad, COX_EFORMAT, line->offset,
                                   "column '%s' is no number", column->name);
        }
    }
    if (r == 0) {
        coxi_filling_end(&filling, line->offset);
    }
    return r;
}

static int parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        const char *reason;
        r = take_record(parser, parser->state, &line, &reason);
        if (r == 0 && reason == NULL) {
            r = add_record(parser, rows, &line);
        } else if (r == 0) {
            r = coxi_bad_record(parser->bad, COX_EFORMAT, line.offset, "%s", reason);
        }
    }
    return r;
}

/* ---- the format */

static int open_file(struct coxi_parser *parser)
{
    const struct coxi_decoding *decoding = parser->decoding;
    struct csv *csv = calloc(1, sizeof(*csv));
    uint32_t *places = calloc(decoding->n_columns, sizeof(*places));
    parser->state = csv;
    if (csv == NULL || places == NULL) {
        free(places);
        return coxi_error_memory("a reader");
    }
    csv->places = places;
    csv->separator = (uint8_t)decoding->separator;
    for (uint32_t i = 0; i < decoding->n_columns; i++) {
        const struct cox_column *column = &decoding->columns[i];
        csv->n_keys += column->kind == COX_COLUMN_KEY;
        places[i] =
            decoding->header == 0 ? (uint32_t)strtoul(column->name, NULL, 10) : 0;
    }
    if (parser->begin == 0) {
        return take_header(parser, csv);
    }
    return decoding->header != 0 ? read_header(parser, csv) : 0;
}

static void close_file(struct coxi_parser *parser)
{
    struct csv *csv = parser->state;
    if (csv != NULL) {
        free(csv->places);
        free(csv->spans);
        free(csv);
    }
}

const struct coxi_format coxi_format_csv = {.splits = true,
                                            .before = COXI_LINE_BEFORE,
                                            .shape = coxi_columns_shape,
                                            .open = open_file,
                                            .close = close_file,
                                            .sync = coxi_line_sync,
                                            .parse = parse};
