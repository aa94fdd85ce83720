/* See json_text.h. */
#include "common/json_text.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The bounds of the second byte exclude longer forms than needed, surrogates, and all above
 * U+10FFFF. */
size_t coxi_utf8_length(const char *at, size_t len)
{
    const uint8_t *text = (const uint8_t *)at;
    uint8_t first = text[0];
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (n == 1) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4 || n > len || text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

size_t coxi_json_char(const char *text, size_t len, char to[COXI_JSON_CHAR_MAX],
                      size_t *ret_read)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*text;
    size_t n = coxi_utf8_length(text, len);
    *ret_read = n > 0 ? n : 1;
    if (n == 0) {
        memcpy(to, "\\ufffd", 6); /* NOLINT(bugprone-not-null-terminated-result) */
        return 6;
    }
    if (c == '"' || c == '\\') {
        to[0] = '\\';
        to[1] = (char)c;
        return 2;
    }
    if (c < 0x20 || c == 0x7f) {
        memcpy(to, "\\u00", 4); /* NOLINT(bugprone-not-null-terminated-result) */
        to[4] = digits[c >> 4];
        to[5] = digits[c & 15];
        return 6;
    }
    memcpy(to, text, n);
    return n;
}

int coxi_json_text(struct coxi_buffer *out, const char *text)
{
    size_t len = strlen(text);
    size_t before = out->len;
    int r = coxi_buffer_reserve(out, len * COXI_JSON_CHAR_MAX + 2);
    if (r != 0) {
        return r;
    }
    (void)coxi_buffer_append_raw(out, "\"", 1); /* there is room for all */
    while (len > 0) {
        size_t read;
        out->len += coxi_json_char(text, len, (char *)out->data + out->len, &read);
        text += read;
        len -= read;
    }
    r = coxi_buffer_append_raw(out, "\"", 1);
    out->len = r == 0 ? out->len : before;
    return r;
}

int coxi_json_number(struct coxi_buffer *out, double value)
{
    if (isnan(value)) {
        return coxi_buffer_append_raw(out, "\"NaN\"", 5);
    }
    if (isinf(value)) {
        return value > 0 ? coxi_buffer_append_raw(out, "\"Infinity\"", 10)
                         : coxi_buffer_append_raw(out, "\"-Infinity\"", 11);
    }
    return coxi_buffer_printf(out, "%.17g", value);
}
