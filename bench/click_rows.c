/* See click_rows.h. */
#include "bench/click_rows.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

__attribute__((format(printf, 2, 3))) static int fail(struct data_error *error,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return -1;
}

/* ---- a growing set of rows */

struct builder {
    struct rows rows;
    size_t n_features;
    size_t rows_capacity;
    size_t features_capacity;
    size_t keys_capacity;
    uint32_t *index; /* open addressing: slot + 1 by key */
    size_t index_capacity;
};

static bool grow(void **array, size_t capacity, size_t size)
{
    void *longer = realloc(*array, capacity * size);
    if (longer == NULL) {
        return false;
    }
    *array = longer;
    return true;
}

static size_t place(const struct builder *b, uint64_t key)
{
    size_t i = (key * 0x9e3779b97f4a7c15u) >> 20 & (b->index_capacity - 1);
    while (b->index[i] != 0 && b->rows.keys[b->index[i] - 1] != key) {
        i = (i + 1) & (b->index_capacity - 1);
    }
    return i;
}

static bool grow_keys(struct builder *b)
{
    size_t capacity = b->keys_capacity == 0 ? 1024 : b->keys_capacity * 2;
    uint32_t *index = calloc(capacity * 2, sizeof(*index));
    if (index == NULL || !grow((void **)&b->rows.keys, capacity, sizeof(uint64_t))) {
        free(index);
        return false;
    }
    free(b->index);
    b->index = index;
    b->index_capacity = capacity * 2;
    b->keys_capacity = capacity;
    for (size_t k = 0; k < b->rows.n_keys; k++) {
        b->index[place(b, b->rows.keys[k])] = (uint32_t)k + 1;
    }
    return true;
}

static bool add_feature(struct builder *b, uint64_t key, float value)
{
    if (b->rows.n_keys == b->keys_capacity && !grow_keys(b)) {
        return false;
    }
    if (b->n_features == b->features_capacity) {
        size_t capacity = b->features_capacity == 0 ? 8192 : b->features_capacity * 2;
        if (!grow((void **)&b->rows.slots, capacity, sizeof(uint32_t)) ||
            !grow((void **)&b->rows.values, capacity, sizeof(float))) {
            return false;
        }
        b->features_capacity = capacity;
    }
    size_t i = place(b, key);
    if (b->index[i] == 0) {
        b->rows.keys[b->rows.n_keys++] = key;
        b->index[i] = (uint32_t)b->rows.n_keys;
    }
    b->rows.slots[b->n_features] = b->index[i] - 1;
    b->rows.values[b->n_features++] = value;
    return true;
}

/* Begins a row, or (at the end) closes the last one. */
static bool add_row(struct builder *b, float label)
{
    if (b->rows.n_rows + 1 >= b->rows_capacity) {
        size_t capacity = b->rows_capacity == 0 ? 256 : b->rows_capacity * 2;
        if (!grow((void **)&b->rows.labels, capacity, sizeof(float)) ||
            !grow((void **)&b->rows.begin, capacity, sizeof(size_t))) {
            return false;
        }
        b->rows_capacity = capacity;
    }
    b->rows.begin[b->rows.n_rows] = b->n_features;
    b->rows.labels[b->rows.n_rows] = label;
    return true;
}

void rows_free(struct rows *rows)
{
    free(rows->labels);
    free(rows->begin);
    free(rows->slots);
    free(rows->values);
    free(rows->keys);
    *rows = (struct rows){0};
}

/* ---- libsvm text */

/* Parses "id:value" at *at, and moves *at past it. Returns what is wrong, or NULL. */
static const char *parse_feature(struct builder *b, char **at)
{
    char *end;
    errno = 0;
    uint64_t id = strtoull(*at, &end, 10);
    if (end == *at || **at == '-' || *end != ':' || errno != 0) {
        return "a feature is not id:value";
    }
    *at = end + 1;
    double value = strtod(*at, &end);
    if (end == *at || !isfinite(value) || strchr(" \t\r", *end) == NULL) {
        return "a feature's value is no number";
    }
    *at = end;
    return add_feature(b, id, (float)value) ? NULL : "out of memory";
}

/* Parses one line (NUL-terminated, no comment); what is wrong with it, or NULL. */
static const char *parse_line(struct builder *b, char *text)
{
    char *at = text + strspn(text, " \t\r");
    char *end;
    if (*at == '\0') {
        return NULL;
    }
    double label = strtod(at, &end);
    if (end == at || (label != -1 && label != 0 && label != 1)) {
        return "the label is none of -1, 0, 1";
    }
    if (!add_row(b, label > 0 ? 1 : 0)) {
        return "out of memory";
    }
    for (at = end + strspn(end, " \t\r"); *at != '\0'; at += strspn(at, " \t\r")) {
        const char *wrong = parse_feature(b, &at);
        if (wrong != NULL) {
            return wrong;
        }
    }
    b->rows.n_rows++;
    return NULL;
}

static int parse(struct builder *b, char *text, const char *path, int64_t line,
                 struct data_error *error)
{
    for (char *at = text; at != NULL; line++) {
        char *newline = strchr(at, '\n');
        if (newline != NULL) {
            *newline = '\0';
        }
        char *comment = strchr(at, '#');
        if (comment != NULL) {
            *comment = '\0';
        }
        const char *wrong = parse_line(b, at);
        if (wrong != NULL) {
            return fail(error, "%s:%lld: %s", path, (long long)line, wrong);
        }
        at = newline != NULL ? newline + 1 : NULL;
    }
    return add_row(b, 0) ? 0 : fail(error, "out of memory for %s", path);
}

/* `len` bytes at `offset` (0: all that is left), NUL-terminated. */
static char *read_part(const char *path, int64_t offset, int64_t len,
                       struct data_error *error)
{
    FILE *file = fopen(path, "rbe");
    char *text = NULL;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        (void)fail(error, "%s: %s", path, strerror(errno));
        goto end;
    }
    int64_t left = ftell(file) - offset;
    len = len > 0 ? len : left;
    text = len <= left ? malloc((size_t)len + 1) : NULL;
    if (text == NULL || fseek(file, (long)offset, SEEK_SET) != 0 ||
        fread(text, 1, (size_t)len, file) != (size_t)len) {
        (void)fail(error, "%s: cannot read %lld bytes at %lld", path, (long long)len,
                   (long long)offset);
        free(text);
        text = NULL;
        goto end;
    }
    text[len] = '\0';
end:
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

int rows_read(const char *path, int64_t offset, int64_t len, int64_t line,
              struct rows *ret, struct data_error *error)
{
    struct builder b = {0};
    char *text = read_part(path, offset, len, error);
    if (text == NULL) {
        return -1;
    }
    int r = parse(&b, text, path, line, error);
    free(text);
    free(b.index);
    if (r != 0) {
        rows_free(&b.rows);
        return r;
    }
    *ret = b.rows;
    return 0;
}

int ranges_of(const char *path, int64_t lines, struct range **ret, size_t *ret_n,
              struct data_error *error)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return fail(error, "%s: %s", path, strerror(errno));
    }
    struct range *ranges = NULL;
    size_t n = 0;
    int64_t line = 0;
    int64_t at = 0;
    char *text = NULL;
    size_t capacity = 0;
    ssize_t len;
    bool memory = true;
    while (memory && (len = getline(&text, &capacity, file)) > 0) {
        if (line % lines == 0) {
            if ((n & (n - 1)) == 0) { /* the array grows at powers of two */
                memory = grow((void **)&ranges, n == 0 ? 1 : n * 2, sizeof(*ranges));
            }
            if (memory) {
                ranges[n++] = (struct range){at, 0, line + 1};
            }
        }
        if (memory) {
            ranges[n - 1].len += len;
        }
        at += len;
        line++;
    }
    bool bad = ferror(file) != 0;
    free(text);
    (void)fclose(file);
    if (bad || n == 0 || !memory) {
        free(ranges);
        return fail(error, "%s: %s", path,
                    bad       ? "cannot be read"
                    : !memory ? "out of memory"
                              : "is empty");
    }
    *ret = ranges;
    *ret_n = n;
    return 0;
}
