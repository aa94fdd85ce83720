/*
 * The text of a log line, from a format of printf and its arguments. Values come from
 * peers, files and users, so none of them can end the line, forge a field or reach a
 * terminal as a control sequence: in texts, control bytes and bytes from 0x7f on become
 * \xNN, a quote becomes \" and a backslash \\. A space becomes \x20 in a text that
 * follows `key=` without a quote. Texts that follow neither `=` nor an opening quote are
 * fields that the caller has made; only their control bytes are escaped.
 *
 * Conversions: d i u x X o c p s f g e, with flags, width, precision and length, and %%.
 */
#ifndef COXI_COMMON_LOG_LINE_H
#define COXI_COMMON_LOG_LINE_H

#include <stdarg.h>
#include <stddef.h>

/* Writes at most `room` bytes to `to`, without a NUL, and returns their number; the rest
 * is cut off. Any thread. */
size_t coxi_log_text(char *to, size_t room, const char *format, va_list args);

#endif
