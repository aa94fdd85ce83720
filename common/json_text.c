/* See json_text.h. */
#include "common/json_text.h"

#include <math.h>
#include <stdbool.h>
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

/* ---- numbers */

enum {
    DIGITS = 17,    /* that tell a double from its neighbours */
    TEN_LEAST = -4, /* below 1e-4 and from 1e17 on, numbers have exponents */
    PLAIN_MAX = 32  /* bytes of a number without one */
};

__extension__ typedef unsigned __int128 wide;

size_t coxi_json_digits(uint64_t n, char to[COXI_JSON_COUNT_MAX])
{
    size_t len = 1;
    for (uint64_t rest = n / 10; rest > 0; rest /= 10) {
        len++;
    }
    for (size_t i = len; i > 0; i--) {
        to[i - 1] = (char)('0' + n % 10);
        n /= 10;
    }
    return len;
}

int coxi_json_count(struct coxi_buffer *out, uint64_t n)
{
    char digits[COXI_JSON_COUNT_MAX];
    return coxi_buffer_append_raw(out, digits, coxi_json_digits(n, digits));
}

/* The first 17 digits of a number from 1e-4 on that is no integer, rounded to even as printf
 * does; *ret_ten: the power of ten of the first one. Exact: all of it are integers. */
static uint64_t digits_of(double value, int *ret_ten)
{
    static const double tens[] = {1e-3, 1e-2, 1e-1, 1e0,  1e1,  1e2, 1e3,
                                  1e4,  1e5,  1e6,  1e7,  1e8,  1e9, 1e10,
                                  1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
    const uint64_t most = UINT64_C(100000000000000000);
    int two;
    int ten = TEN_LEAST;
    wide scaled = (wide)(uint64_t)ldexp(frexp(value, &two), 53); /* 53 bits */
    while (ten - TEN_LEAST < (int)(sizeof(tens) / sizeof(*tens)) &&
           value >= tens[ten - TEN_LEAST]) {
        ten++;
    }
    for (int i = ten; i < DIGITS - 1; i++) {
        scaled *= 10; /* at most 20 times, so 120 bits */
    }
    int shift =
        53 - two; /* 1 to 66: the number has a fraction, and is not below 1e-4 */
    uint64_t digits = (uint64_t)(scaled >> shift);
    wide rest = scaled - ((wide)digits << shift);
    wide half = (wide)1 << (shift - 1);
    digits += rest > half || (rest == half && digits % 2 == 1);
    if (digits == most) {
        digits /= 10;
        ten++;
    }
    *ret_ten = ten;
    return digits;
}

/* The same text as printf's %.17g makes of it, at a tenth of the time. */
static size_t put_fraction(double value, char to[PLAIN_MAX])
{
    char all[COXI_JSON_COUNT_MAX];
    int ten;
    uint64_t digits = digits_of(value, &ten);
    while (digits % 10 == 0) {
        digits /= 10;
    }
    size_t n = coxi_json_digits(digits, all);
    size_t at = 0;
    size_t whole = ten >= 0 ? (size_t)ten + 1 : 0; /* digits before the point */
    if (whole == 0) {
        to[at++] = '0';
    }
    memcpy(to + at, all, whole);
    at += whole;
    to[at++] = '.';
    for (int i = -1; i > ten; i--) {
        to[at++] = '0';
    }
    memcpy(to + at, all + whole, n - whole);
    return at + n - whole;
}

int coxi_json_number(struct coxi_buffer *out, double value)
{
    char text[PLAIN_MAX];
    double size = fabs(value);
    if (isnan(value)) {
        return coxi_buffer_append_raw(out, "\"NaN\"", 5);
    }
    if (isinf(value)) {
        return value > 0 ? coxi_buffer_append_raw(out, "\"Infinity\"", 10)
                         : coxi_buffer_append_raw(out, "\"-Infinity\"", 11);
    }
    bool is_integer = size < 1e17 && size == (double)(uint64_t)size;
    if (!is_integer && (size < 1e-4 || size >= 1e17)) {
        return coxi_buffer_printf(out, "%.17g", value);
    }
    int r = signbit(value) ? coxi_buffer_append_raw(out, "-", 1) : 0;
    if (r == 0 && is_integer) {
        r = coxi_json_count(out, (uint64_t)size);
    } else if (r == 0) {
        r = coxi_buffer_append_raw(out, text, put_fraction(size, text));
    }
    return r;
}
