/*
 * CSV (RFC 4180): a record is a line of fields with a separator between. A field that
 * begins with a quote ends with one; within it a quote is doubled, and separators and
 * newlines are text. A quote elsewhere is text. Lines may end in CR LF; empty ones are
 * left out. A byte order mark at the file's beginning is left out.
 *
 * Columns take the fields that they name in the header; without a header their names are
 * the fields' numbers, from 0.
 *
 * A file is cut at newlines. Whether one is within quotes could be known only by reading
 * from the file's beginning on, so a task may begin within a record. The task before,
 * which has that record's beginning, notices and fails.
 */
#ifndef COXI_DATA_FORMAT_CSV_H
#define COXI_DATA_FORMAT_CSV_H

#include "data/format.h"

extern const struct coxi_format coxi_format_csv;

#endif
