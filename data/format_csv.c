/* See format_csv.h. Cost: 2 to 3 ns a byte. Texts are copied only to halve quotes. */
#include "data/format_csv.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "data/columns.h"
#include "data/csv.h"
#include "data/number.h"

struct csv {
    struct coxi_csv records;
    size_t header_fields; /* 0: there is no header */
    uint64_t header_end;  /* where it ends in the file; 0: there is none */
    uint32_t *places;     /* [n_columns]: the number of each column's field */
    size_t n_keys;        /* of a record */
};

/* ---- the header */

static bool is_named(const struct coxi_csv_span *span, const uint8_t *record,
                     const char *name)
{
    size_t len = strlen(name);
    size_t n = 0;
    for (size_t i = span->begin; i < span->end; i++, n++) {
        if (n == len || record[i] != (uint8_t)name[n]) {
            return false;
        }
        i += span->doubled && record[i] == '"';
    }
    return n == len;
}

/* The number of the field with this name. */
static int find_name(const struct coxi_parser *parser, const struct csv *csv,
                     const uint8_t *record, const char *name, uint32_t *ret)
{
    size_t found = 0;
    for (size_t i = 0; i < csv->records.n; i++) {
        if (is_named(&csv->records.spans[i], record, name)) {
            found++;
            *ret = (uint32_t)i;
        }
    }
    return found == 1 ? 0
                      : coxi_error(COX_EFORMAT, "%s:0: its header has %s column '%s'",
                                   parser->bad->file,
                                   found == 0 ? "no" : "more than one", name);
}

/* Takes the header from a parser at the file's beginning. */
static int take_header(struct coxi_parser *parser, struct csv *csv)
{
    const struct coxi_decoding *decoding = parser->decoding;
    const char *reason;
    struct coxi_line line;
    int r = coxi_csv_pass_mark(parser->stream);
    if (r != 0 || decoding->header == 0) {
        return r;
    }
    r = coxi_csv_next(parser, &csv->records, &line, &reason);
    if (r == 0 && reason != NULL) {
        r = coxi_error(COX_EFORMAT, "%s:0: its header: %s", parser->bad->file, reason);
    }
    for (uint32_t i = 0; r == 0 && i < decoding->n_columns; i++) {
        r = find_name(parser, csv, line.at, decoding->columns[i].name, &csv->places[i]);
    }
    csv->header_fields = csv->records.n;
    csv->header_end = parser->stream->offset;
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
                              const struct coxi_csv_span *span, size_t *ret_len)
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
                       const uint8_t *record, const struct coxi_csv_span *span)
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
    if (csv->header_fields > 0 && csv->records.n != csv->header_fields) {
        return coxi_bad_record(parser->bad, COX_EFORMAT, line->offset,
                               "%zu field%s, and the header has %zu", csv->records.n,
                               coxi_s(csv->records.n), csv->header_fields);
    }
    int r = coxi_filling_begin(&filling, rows, csv->n_keys);
    r = r == 0 && rows->bytes != NULL ? coxi_rows_hold(rows, parser->stream->block) : r;
    for (uint32_t i = 0; r == 0 && i < parser->decoding->n_columns; i++) {
        const struct cox_column *column = &parser->decoding->columns[i];
        uint32_t place = csv->places[i];
        if (place >= csv->records.n) {
            return coxi_bad_record(parser->bad, COX_EFORMAT, line->offset,
                                   "%zu field%s, and none is '%s'", csv->records.n,
                                   coxi_s(csv->records.n), column->name);
        }
        r = fill_column(&filling, column, line->at, &csv->records.spans[place]);
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
    struct csv *csv = parser->state;
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        const char *reason;
        r = coxi_csv_next(parser, &csv->records, &line, &reason);
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
    csv->records.separator = (uint8_t)decoding->separator;
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

/* A task that begins within the byte order mark, or before the header's end (there may be
 * empty lines before it), begins behind that. */
static int sync(struct coxi_parser *parser)
{
    const struct csv *csv = parser->state;
    struct coxi_stream *stream = parser->stream;
    uint64_t from = stream->offset;
    int r = 0;
    if (parser->begin < csv->header_end) {
        coxi_stream_seek(stream, csv->header_end);
    } else if (parser->begin > COXI_CSV_MARK || parser->decoding->header != 0) {
        return coxi_line_sync(parser);
    } else {
        coxi_stream_seek(stream, 0);
        r = coxi_csv_pass_mark(stream);
        if (r == 0 && stream->offset == 0) {
            coxi_stream_seek(stream, from);
            return coxi_line_sync(parser);
        }
    }
    return r != 0 || stream->offset < parser->end ? r : COX_EEOF;
}

static void close_file(struct coxi_parser *parser)
{
    struct csv *csv = parser->state;
    if (csv != NULL) {
        free(csv->places);
        coxi_csv_fini(&csv->records);
        free(csv);
    }
}

const struct coxi_format coxi_format_csv = {.splits = true,
                                            .before = COXI_LINE_BEFORE,
                                            .shape = coxi_columns_shape,
                                            .open = open_file,
                                            .close = close_file,
                                            .sync = sync,
                                            .parse = parse};
