/*
 * Lines as raw records, whatever they contain: for the tool, which copies records
 * without decoding them. A line of CSV goes on behind a newline within quotes. Blank
 * lines are no records, as in all formats of lines.
 */
#ifndef COXI_DATA_FORMAT_LINES_H
#define COXI_DATA_FORMAT_LINES_H

#include "data/format.h"

/* No format of data sets, so it has no number. cox_batch.bytes are the lines without
 * their ends (newline, or carriage return and newline). */
extern const struct coxi_format coxi_format_lines;

#endif
