/* See log_line.h. Any thread; no memory is allocated. */
#include "common/log_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    SPEC_MAX = 32,    /* bytes of a conversion */
    NUMBER_MAX = 512, /* bytes of a formatted number */
};

struct line {
    char *to;
    size_t room;
    size_t used;
    bool quoted; /* inside quotes of the format */
    char last;   /* the last character of the format's own text */
};

/* How a text is escaped. */
enum place { FIELDS, BARE, QUOTED };

/* A conversion, as "%-08.3ld". */
struct conversion {
    char spec[SPEC_MAX];
    size_t len;
    int precision; /* -1: none */
    bool wide;     /* as long as a long, whatever its text says (ll, j, z, t) */
    char kind;     /* 'd', 's' ... */
};

static void put(struct line *line, const char *bytes, size_t len)
{
    if (len <= line->room - line->used) { /* an escape is whole, or missing */
        memcpy(line->to + line->used, bytes, len);
        line->used += len;
    } else {
        line->room = line->used;
    }
}

static void put_byte(struct line *line, unsigned char c, enum place place)
{
    char escaped[8];
    bool marks = place != FIELDS && (c == '"' || c == '\\');
    if (marks) {
        put(line, (const char[]){'\\', (char)c}, 2);
    } else if (c < 0x20 || c >= 0x7f || (place == BARE && c == ' ')) {
        (void)snprintf(escaped, sizeof(escaped), "\\x%02x", c);
        put(line, escaped, 4);
    } else {
        put(line, (const char *)&c, 1);
    }
}

static void put_text(struct line *line, const char *text, int precision)
{
    enum place place = line->quoted ? QUOTED : line->last == '=' ? BARE : FIELDS;
    text = text != NULL ? text : "(null)";
    size_t len = precision >= 0 ? strnlen(text, (size_t)precision) : strlen(text);
    for (size_t i = 0; i < len && line->used < line->room; i++) {
        put_byte(line, (unsigned char)text[i], place);
    }
}

/* ---- conversions */

static void add(struct conversion *c, const char *bytes, size_t len)
{
    if (c->len + len < SPEC_MAX) {
        memcpy(c->spec + c->len, bytes, len);
        c->len += len;
        c->spec[c->len] = '\0';
    }
}

/* Moves past a number, or past '*', for which it takes an argument. Returns it. */
static int read_count(struct conversion *c, const char **at, va_list *args)
{
    char text[16];
    int n = 0;
    if (**at == '*') {
        n = va_arg(*args, int);
        ++*at;
    } else {
        for (; **at >= '0' && **at <= '9'; ++*at) {
            n = n * 10 + (**at - '0');
        }
    }
    int len = snprintf(text, sizeof(text), "%d", n);
    add(c, text, (size_t)len);
    return n;
}

/* Reads a conversion, whose first byte is behind the '%'; returns its end. */
static const char *read_conversion(struct conversion *c, const char *at, va_list *args)
{
    *c = (struct conversion){.spec = "%", .len = 1, .precision = -1};
    size_t flags = strspn(at, "-+ #0");
    add(c, at, flags);
    at += flags;
    if (*at == '*' || (*at >= '0' && *at <= '9')) {
        (void)read_count(c, &at, args);
    }
    if (*at == '.') {
        add(c, at, 1);
        at++;
        c->precision = read_count(c, &at, args);
    }
    size_t length = strspn(at, "hlzjt");
    c->wide = length > 0 && *at != 'h';
    add(c, c->wide ? "l" : at, c->wide ? 1 : length);
    at += length;
    c->kind = *at;
    add(c, at, *at != '\0');
    return *at != '\0' ? at + 1 : at;
}

static void put_number(struct line *line, const struct conversion *c, va_list *args)
{
    char text[NUMBER_MAX];
    /* NOLINTNEXTLINE(bugprone-branch-clone): the arguments' types differ. */
    int len = c->wide ? snprintf(text, sizeof(text), c->spec, va_arg(*args, long))
                      : snprintf(text, sizeof(text), c->spec, va_arg(*args, int));
    put(line, text, len > 0 && (size_t)len < sizeof(text) ? (size_t)len : 0);
}

_Static_assert(sizeof(long long) == sizeof(long) && sizeof(intmax_t) == sizeof(long) &&
                   sizeof(size_t) == sizeof(long) && sizeof(ptrdiff_t) == sizeof(long),
               "the lengths ll, j, z and t are as long as l");

static void put_real(struct line *line, const struct conversion *c, va_list *args)
{
    char text[NUMBER_MAX];
    int len = snprintf(text, sizeof(text), c->spec, va_arg(*args, double));
    size_t bytes = len > 0 ? (size_t)len : 0;
    put(line, text, bytes < sizeof(text) ? bytes : sizeof(text) - 1);
}

static void put_conversion(struct line *line, const struct conversion *c, va_list *args)
{
    char text[NUMBER_MAX];
    switch (c->kind) {
    case 's':
        put_text(line, va_arg(*args, const char *), c->precision);
        break;
    case 'f':
    case 'g':
    case 'e':
        put_real(line, c, args);
        break;
    case 'p':
        put(line, text,
            (size_t)snprintf(text, sizeof(text), "%p", va_arg(*args, void *)));
        break;
    case 'c':
        put_text(line, (const char[]){(char)va_arg(*args, int), '\0'}, 1);
        break;
    case '%':
        put(line, "%", 1);
        break;
    default:
        put_number(line, c, args);
        break;
    }
}

size_t coxi_log_text(char *to, size_t room, const char *format, va_list args)
{
    struct line line = {.to = to, .room = room};
    va_list rest;
    va_copy(rest, args);
    while (*format != '\0' && line.used < line.room) {
        if (*format != '%') {
            line.last = *format++;
            line.quoted ^= line.last == '"';
            put_byte(&line, (unsigned char)line.last, FIELDS);
            continue;
        }
        struct conversion c;
        format = read_conversion(&c, format + 1, &rest);
        put_conversion(&line, &c, &rest);
        line.last = '\0';
    }
    va_end(rest);
    return line.used;
}
