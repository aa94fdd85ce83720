/*
 * See csv.h. Cost: each byte is looked at at most three times. A record whose quotes are
 * never closed is read to the file's end, and then its second line is the next record. If
 * that ends within quotes, too, it goes on like the record before, so it is malformed
 * for the same reason (malformed_to), and nothing is read again.
 */
#include "data/csv.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"

enum { FIELDS_AT_FIRST = 64, FIELDS_MAX = 1 << 20 };

enum split { SPLIT, OPEN, MALFORMED, NO_MEMORY };

static bool add_span(struct coxi_csv *csv, size_t begin, size_t end)
{
    if (csv->n == csv->capacity) {
        size_t capacity = csv->capacity > 0 ? 2 * csv->capacity : FIELDS_AT_FIRST;
        struct coxi_csv_span *spans =
            reallocarray(csv->spans, capacity, sizeof(*spans));
        if (spans == NULL) {
            return false;
        }
        csv->spans = spans;
        csv->capacity = capacity;
    }
    csv->spans[csv->n++] = (struct coxi_csv_span){begin, end, false};
    return true;
}

/* Goes on within quotes to the end of the field. SPLIT: *at is behind its quote. */
static enum split split_quoted(struct coxi_csv *csv, const uint8_t *record, size_t *at,
                               size_t end)
{
    struct coxi_csv_span *span = &csv->spans[csv->n - 1];
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

static size_t find_separator(const struct coxi_csv *csv, const uint8_t *record,
                             size_t at, size_t end)
{
    while (at < end && record[at] != csv->separator) {
        at++;
    }
    return at;
}

/* Splits the bytes from `at` to `end`, where a line ends. OPEN: that is within quotes. */
static enum split split(struct coxi_csv *csv, const uint8_t *record, size_t at,
                        size_t end)
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

static const char *reason_of(const struct coxi_csv *csv, enum split result)
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

/* Goes on with a record whose first line ends within quotes. *reason: NULL, or why it is
 * malformed. */
static int take_rest(struct coxi_parser *parser, struct coxi_csv *csv,
                     struct coxi_line *line, const char **reason)
{
    enum split result = OPEN;
    while (result == OPEN) {
        size_t at = without_return(line);
        uint64_t next = parser->stream->offset;
        int r = go_on(parser, line);
        if (r == 0) {
            result = split(csv, line->at, at, without_return(line));
        }
        if (r == COX_EEOF || result == MALFORMED) {
            *reason = reason_of(csv, result);
            csv->malformed_to = next;
            csv->malformed_why = *reason;
            return 0;
        }
        if (r != 0 || result == NO_MEMORY) {
            return r != 0 ? r : coxi_error_memory("the fields of a record");
        }
    }
    return 0;
}

int coxi_csv_next(struct coxi_parser *parser, struct coxi_csv *csv,
                  struct coxi_line *ret, const char **reason)
{
    struct coxi_line first;
    *reason = NULL;
    do {
        int r = coxi_line_next(parser, &first);
        if (r != 0) {
            return r;
        }
    } while (without_return(&first) == 0);
    uint64_t next = parser->stream->offset;
    int r = 0;
    *ret = first;
    csv->n = 0;
    csv->within = false;
    enum split result = split(csv, first.at, 0, without_return(&first));
    if (result == NO_MEMORY) {
        return coxi_error_memory("the fields of a record");
    }
    if (result == MALFORMED) {
        *reason = reason_of(csv, result);
    } else if (result == OPEN && next <= csv->malformed_to) {
        *reason = csv->malformed_why;
    } else if (result == OPEN) {
        r = take_rest(parser, csv, ret, reason);
    }
    if (r == 0 && *reason != NULL) {
        ret->len = first.len;
        if (csv->n < FIELDS_MAX) {
            coxi_line_back(parser, ret, (size_t)(next - first.offset));
        }
    }
    return r;
}

int coxi_csv_pass_mark(struct coxi_stream *stream)
{
    static const uint8_t mark[COXI_CSV_MARK] = {0xef, 0xbb, 0xbf};
    int r = coxi_stream_need(stream, sizeof(mark));
    if (r == 0 && (size_t)(stream->end - stream->at) >= sizeof(mark) &&
        memcmp(stream->at, mark, sizeof(mark)) == 0) {
        coxi_stream_skip(stream, sizeof(mark));
    }
    return r;
}

int coxi_csv_check(struct coxi_csv *csv, const uint8_t *record, size_t len)
{
    size_t at = 0;
    size_t begin = 0; /* of the line */
    enum split result = OPEN;
    const uint8_t *newline = record;
    csv->n = 0;
    csv->within = false;
    while (result == OPEN && newline != NULL) {
        newline = len > begin ? memchr(record + begin, '\n', len - begin) : NULL;
        size_t end = newline != NULL ? (size_t)(newline - record) : len;
        result = split(csv, record, at, end);
        at = end;
        begin = end + 1;
    }
    if (result == NO_MEMORY) {
        return coxi_error_memory("the fields of a record");
    }
    return result == OPEN    ? coxi_error(COX_EFORMAT, "its quotes stay open")
           : newline == NULL ? 0
                             : coxi_error(COX_EFORMAT, "it has a newline");
}

void coxi_csv_fini(struct coxi_csv *csv)
{
    free(csv->spans);
    *csv = (struct coxi_csv){0};
}
