/*
 * A line of the log as a JSON object on one line, valid for any bytes in its values:
 *
 *   {"ts":"2026-01-31T12:00:00.123Z","level":"info","role":"ps","index":0,"event":"listening","pid":77}
 *
 * Values in quotes are strings, and so is "run" always. Others are numbers if they are
 * integers of at most 15 digits, which every reader of JSON keeps exactly; else strings.
 */
#ifndef COXI_COMMON_LOG_JSON_H
#define COXI_COMMON_LOG_JSON_H

#include <stddef.h>

/* The JSON of a line of `len` bytes takes at most this many bytes. */
static inline size_t coxi_log_json_max(size_t len)
{
    return 8 * len + 16;
}

/* Writes the JSON of the fields in `line`, as common/log_line.h has written them, to
 * `to`, which has coxi_log_json_max(len) bytes; returns their number. A line that was cut
 * off ends its last value. Any thread; no memory is allocated. */
size_t coxi_log_json(const char *line, size_t len, char *to);

#endif
