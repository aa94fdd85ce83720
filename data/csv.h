/*
 * The records of CSV (RFC 4180; docs/data.md), split into fields. A record is a line, or
 * several if newlines are within quotes.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_CSV_H
#define COXI_DATA_CSV_H

#include "data/line.h"

/* A field of the record at hand, without its quotes; offsets from the record's beginning. */
struct coxi_csv_span {
    size_t begin;
    size_t end;
    bool doubled; /* it has doubled quotes */
};

/* Zeroed, except for the separator, at first. */
struct coxi_csv {
    uint8_t separator;

    /* the record at hand */
    struct coxi_csv_span *spans;
    size_t n;
    size_t capacity;
    bool within; /* quotes are open in the last span */

    /* A record whose first line ends within quotes, at or before this offset, is
     * malformed, and why. */
    uint64_t malformed_to;
    const char *malformed_why;
};

/*
 * Takes the task's next record that is not empty. *reason: NULL, or why it is malformed;
 * then *ret is its first line, and the parser goes on at the second one (behind the last
 * line that was read, if there are too many fields). COX_EEOF: the task has no more.
 * COX_EFORMAT: the task ends within the record. COX_ENOMEM, errors of coxi_line_next.
 */
int coxi_csv_next(struct coxi_parser *parser, struct coxi_csv *csv,
                  struct coxi_line *ret, const char **reason);

enum { COXI_CSV_MARK = 3 }; /* bytes of a byte order mark */

/* At a file's beginning: passes a byte order mark. */
int coxi_csv_pass_mark(struct coxi_stream *stream);

/* Whether the bytes are one record, and no part of one, in a file of records: lines end
 * within quotes only, and quotes do not stay open. COX_EFORMAT: the text says why not;
 * COX_ENOMEM. */
int coxi_csv_check(struct coxi_csv *csv, const uint8_t *record, size_t len);

void coxi_csv_fini(struct coxi_csv *csv);

#endif
