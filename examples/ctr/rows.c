/* See rows.h. */
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static bool grow(void **array, size_t capacity, size_t size)
{
    void *longer = realloc(*array, capacity * size);
    if (longer == NULL) {
        return false;
    }
    *array = longer;
    return true;
}

static bool add_feature(struct rows *rows, uint64_t key, float value)
{
    if (rows->n_features == rows->features_capacity) {
        size_t capacity = 2 * rows->features_capacity + 8192;
        if (!grow((void **)&rows->keys, capacity, sizeof(*rows->keys)) ||
            !grow((void **)&rows->values, capacity, sizeof(*rows->values))) {
            return false;
        }
        rows->features_capacity = capacity;
    }
    rows->keys[rows->n_features] = key;
    rows->values[rows->n_features++] = value;
    return true;
}

/* Begins a row, or (at the end) closes the last one. */
static bool add_row(struct rows *rows, float label)
{
    if (rows->batch.n + 1 >= rows->rows_capacity) {
        size_t capacity = 2 * rows->rows_capacity + 256;
        if (!grow((void **)&rows->labels, capacity, sizeof(*rows->labels)) ||
            !grow((void **)&rows->begin, capacity, sizeof(*rows->begin))) {
            return false;
        }
        rows->rows_capacity = capacity;
    }
    rows->begin[rows->batch.n] = rows->n_features;
    rows->labels[rows->batch.n] = label;
    return true;
}

/* Parses "id:value" at *at, and moves *at past it. Returns what is wrong, or NULL. */
static const char *parse_feature(struct rows *rows, char **at)
{
    char *end;
    errno = 0;
    uint64_t id = strtoull(*at, &end, 10);
    if (end == *at || **at == '-' || *end != ':' || errno != 0) {
        return "a feature is not id:value";
    }
    *at = end + 1;
    double value = strtod(*at, &end);
    if (end == *at || !isfinite(value) || strchr(" \t\r\n", *end) == NULL) {
        return "a feature's value is no number";
    }
    *at = end;
    return add_feature(rows, id, (float)value) ? NULL : "out of memory";
}

/* Parses one line; what is wrong with it, or NULL. */
static const char *parse_line(struct rows *rows, char *line)
{
    line[strcspn(line, "#")] = '\0';
    char *at = line + strspn(line, " \t\r\n");
    char *end;
    if (*at == '\0') {
        return NULL;
    }
    double label = strtod(at, &end);
    if (end == at || (label != -1 && label != 0 && label != 1)) {
        return "the label is none of -1, 0, 1";
    }
    if (!add_row(rows, label > 0 ? 1 : 0)) {
        return "out of memory";
    }
    for (at = end + strspn(end, " \t\r\n"); *at != '\0'; at += strspn(at, " \t\r\n")) {
        const char *wrong = parse_feature(rows, &at);
        if (wrong != NULL) {
            return wrong;
        }
    }
    rows->batch.n++;
    return NULL;
}

static const char *parse(struct rows *rows, FILE *file, long *number)
{
    char *line = NULL;
    size_t capacity = 0;
    const char *wrong = NULL;
    while (wrong == NULL && getline(&line, &capacity, file) > 0) {
        ++*number;
        wrong = parse_line(rows, line);
    }
    free(line);
    if (wrong != NULL) {
        return wrong;
    }
    return ferror(file) != 0    ? "cannot be read"
           : rows->batch.n == 0 ? "has no rows"
           : add_row(rows, 0)   ? NULL
                                : "out of memory";
}

int rows_read(const char *path, struct rows *ret)
{
    struct rows rows = {.batch = COX_BATCH_INIT};
    FILE *file = fopen(path, "re");
    long number = 0;
    const char *wrong = file != NULL ? parse(&rows, file, &number) : strerror(errno);
    if (wrong != NULL) {
        (void)fprintf(stderr, "%s:%ld: %s\n", path, number, wrong);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    rows.batch.labels = rows.labels;
    rows.batch.begin = rows.begin;
    rows.batch.keys = rows.keys;
    rows.batch.values = rows.values;
    *ret = rows;
    return wrong == NULL ? 0 : -1;
}

void rows_free(struct rows *rows)
{
    free(rows->labels);
    free(rows->begin);
    free(rows->keys);
    free(rows->values);
    *rows = (struct rows){0};
}
