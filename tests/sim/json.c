/*
 * In place of jansson's json_dumps, which spends most of its time looking for circles
 * in a tree: here a circle would overflow the stack. Writes what jansson writes, for
 * the flags that the product has; a storm takes some checkpoints, each with a JSON
 * header per file.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *at;
    size_t len;
    size_t room;
    size_t indent; /* 0: none */
};

char *__real_json_dumps(const json_t *value, size_t flags);
char *__wrap_json_dumps(const json_t *value, size_t flags);

static void put(struct text *text, const char *bytes, size_t len)
{
    if (text->len + len > text->room) {
        text->room = 2 * text->room + len + 4096;
        text->at = realloc(text->at, text->room);
    }
    memcpy(text->at + text->len, bytes, len);
    text->len += len;
}

static void put_line(struct text *text, size_t depth)
{
    static const char spaces[] = "                                ";
    if (text->indent > 0) {
        put(text, "\n", 1);
        put(text, spaces, depth * text->indent);
    }
}

static bool is_plain(const char *string, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (string[i] < ' ' || string[i] == '"' || string[i] == '\\' ||
            string[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* As jansson writes it. */
static void put_whole(struct text *text, const json_t *value)
{
    char *whole = __real_json_dumps(value, JSON_ENCODE_ANY);
    put(text, whole, strlen(whole));
    free(whole);
}

static void put_real(struct text *text, const json_t *value)
{
    double real = json_real_value(value);
    if (real == 0 && !signbit(real)) {
        put(text, "0.0", 3);
    } else {
        put_whole(text, value);
    }
}

static void put_string(struct text *text, const char *string, size_t len)
{
    if (is_plain(string, len)) {
        put(text, "\"", 1);
        put(text, string, len);
        put(text, "\"", 1);
    } else {
        json_t *value = json_stringn(string, len);
        put_whole(text, value);
        json_decref(value);
    }
}

static void put_integer(struct text *text, json_int_t n)
{
    char digits[24];
    char *at = digits + sizeof(digits);
    unsigned long long left = n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (n < 0) {
        *--at = '-';
    }
    put(text, at, (size_t)(digits + sizeof(digits) - at));
}

static void put_value(struct text *text, const json_t *value, size_t depth);

static void put_array(struct text *text, const json_t *array, size_t depth)
{
    size_t n = json_array_size(array);
    put(text, "[", 1);
    for (size_t i = 0; i < n; i++) {
        put_line(text, depth + 1);
        put_value(text, json_array_get(array, i), depth + 1);
        put(text, ",", i + 1 < n ? 1 : 0);
    }
    if (n > 0) {
        put_line(text, depth);
    }
    put(text, "]", 1);
}

static void put_object(struct text *text, json_t *object, size_t depth)
{
    size_t left = json_object_size(object);
    bool any = left > 0;
    put(text, "{", 1);
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        put_line(text, depth + 1);
        put_string(text, json_object_iter_key(at), json_object_iter_key_len(at));
        put(text, ": ", text->indent > 0 ? 2 : 1);
        put_value(text, json_object_iter_value(at), depth + 1);
        put(text, ",", --left > 0 ? 1 : 0);
    }
    if (any) {
        put_line(text, depth);
    }
    put(text, "}", 1);
}

static void put_value(struct text *text, const json_t *value, size_t depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(text, (json_t *)(uintptr_t)value, depth);
        return;
    case JSON_ARRAY:
        put_array(text, value, depth);
        return;
    case JSON_STRING:
        put_string(text, json_string_value(value), json_string_length(value));
        return;
    case JSON_INTEGER:
        put_integer(text, json_integer_value(value));
        return;
    case JSON_REAL:
        put_real(text, value);
        return;
    case JSON_TRUE:
        put(text, "true", 4);
        return;
    case JSON_FALSE:
        put(text, "false", 5);
        return;
    case JSON_NULL:
        put(text, "null", 4);
        return;
    }
}

char *__wrap_json_dumps(const json_t *value, size_t flags)
{
    struct text text = {.indent = flags & JSON_MAX_INDENT};
    if (value == NULL ||
        (flags & ~(size_t)JSON_MAX_INDENT) != (text.indent > 0 ? 0 : JSON_COMPACT)) {
        return __real_json_dumps(value, flags);
    }
    put_value(&text, value, 0);
    put(&text, "", 1);
    return text.at;
}
