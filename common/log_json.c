/*
 * See log_json.h. Reads the text of the line and not what it was made of, so that both
 * formats always have the same fields.
 *
 * The bound: a word of one byte that is not UTF-8, with its space, grows most: it becomes
 * `"\ufffd":true,`.
 */
#include "common/log_json.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/json_text.h"

enum { DIGITS_MAX = 15, CHAR_MAX_BYTES = 4 };

struct text {
    const char *at;
    const char *end;
};

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of a value, without its escape. */
static char take_byte(struct text *from)
{
    size_t left = (size_t)(from->end - from->at);
    if (left >= 4 && from->at[0] == '\\' && from->at[1] == 'x' &&
        digit_of(from->at[2]) >= 0 && digit_of(from->at[3]) >= 0) {
        char byte = (char)(digit_of(from->at[2]) * 16 + digit_of(from->at[3]));
        from->at += 4;
        return byte;
    }
    from->at += left >= 2 && from->at[0] == '\\' ? 1 : 0;
    return *from->at++;
}

/* Copies a value to `to` as a JSON string. A character of UTF-8 was escaped byte by
 * byte, so bytes are collected until they are enough for the longest one. */
static size_t put_string(struct text value, char *to)
{
    char bytes[CHAR_MAX_BYTES];
    size_t n = 0;
    size_t used = 0;
    to[used++] = '"';
    while (n > 0 || value.at < value.end) {
        while (n < CHAR_MAX_BYTES && value.at < value.end) {
            bytes[n++] = take_byte(&value);
        }
        size_t read;
        used += coxi_json_char(bytes, n, to + used, &read);
        memmove(bytes, bytes + read, n - read);
        n -= read;
    }
    to[used++] = '"';
    return used;
}

/* An integer that every reader keeps exactly. */
static bool is_number(struct text value)
{
    value.at += value.at < value.end && *value.at == '-';
    size_t len = (size_t)(value.end - value.at);
    bool is = len > 0 && len <= DIGITS_MAX && (len == 1 || *value.at != '0');
    for (; is && value.at < value.end; value.at++) {
        is = *value.at >= '0' && *value.at <= '9';
    }
    return is;
}

/* The text up to the byte `end`, or up to the end of the line, which `line` moves to. */
static struct text take_until(struct text *line, char end, bool escapes)
{
    struct text text = {line->at, line->at};
    while (text.end < line->end && *text.end != end) {
        text.end += escapes && *text.end == '\\' && text.end + 1 < line->end ? 2 : 1;
    }
    line->at = text.end + (text.end < line->end);
    return text;
}

/* `key=value` or `key="value"`, or a word without a value, which is true. */
static size_t put_field(struct text *line, char *to)
{
    struct text word = *line;
    struct text key = take_until(&word, ' ', false);
    const char *equals = memchr(key.at, '=', (size_t)(key.end - key.at));
    if (equals == NULL) {
        *line = word;
        size_t used = put_string(key, to);
        memcpy(to + used, ":true", 5); /* NOLINT(bugprone-not-null-terminated-result) */
        return used + 5;
    }
    key.end = equals;
    line->at = equals + 1;
    bool quoted = line->at < line->end && *line->at == '"';
    line->at += quoted;
    struct text value = take_until(line, quoted ? '"' : ' ', true);
    line->at += quoted && line->at < line->end && *line->at == ' ';
    size_t used = put_string(key, to);
    to[used++] = ':';
    bool is_run = key.end - key.at == 3 && memcmp(key.at, "run", 3) == 0;
    if (!quoted && !is_run && is_number(value)) {
        memcpy(to + used, value.at, (size_t)(value.end - value.at));
        return used + (size_t)(value.end - value.at);
    }
    return used + put_string(value, to + used);
}

size_t coxi_log_json(const char *line, size_t len, char *to)
{
    struct text text = {line, line + len};
    size_t used = 0;
    to[used++] = '{';
    while (text.at < text.end) {
        if (*text.at == ' ') {
            text.at++;
            continue;
        }
        if (used > 1) {
            to[used++] = ',';
        }
        used += put_field(&text, to + used);
    }
    to[used++] = '}';
    return used;
}
