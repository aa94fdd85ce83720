/* Text as JSON strings, for writers that need no tree of values. Any bytes make valid
 * JSON: what is not UTF-8 becomes U+FFFD. Any thread. */
#ifndef COXI_COMMON_JSON_TEXT_H
#define COXI_COMMON_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

enum { COXI_JSON_CHAR_MAX = 6, COXI_JSON_COUNT_MAX = 20 };

/* How many bytes the UTF-8 character at `text` has, which has `len` bytes (at least 1); 0: it
 * is none. */
size_t coxi_utf8_length(const char *text, size_t len);

/* Writes the first character of `len` bytes (at least 1) to `to`, escaped where JSON
 * demands it. Returns how many bytes it wrote; *ret_read: how many of `text` it read. */
size_t coxi_json_char(const char *text, size_t len, char to[COXI_JSON_CHAR_MAX],
                      size_t *ret_read);

/* Appends a string with its quotes. COX_ENOMEM. */
int coxi_json_text(struct coxi_buffer *out, const char *text);

/* Writes a count; returns how many digits it has. */
size_t coxi_json_digits(uint64_t n, char to[COXI_JSON_COUNT_MAX]);

/* Appends a count. COX_ENOMEM. */
int coxi_json_count(struct coxi_buffer *out, uint64_t n);

/* Appends a number so that its exact value can be read back. JSON has no NaN and no
 * infinity: they are the strings "NaN", "Infinity" and "-Infinity". COX_ENOMEM. */
int coxi_json_number(struct coxi_buffer *out, double value);

#endif
