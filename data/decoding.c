/* See decoding.h. */
#include "data/decoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/dataset.h"

static const char *const format_names[] = {
    [COX_RECORDIO] = "recordio", [COX_TFRECORD] = "tfrecord", [COX_LIBSVM] = "libsvm",
    [COX_LIBFFM] = "libffm",     [COX_CRITEO] = "criteo",     [COX_CSV] = "csv",
    [COX_TEXT] = "text",
};

static const char *const kind_names[] = {
    [COX_COLUMN_LABEL] = "label", [COX_COLUMN_WEIGHT] = "weight",
    [COX_COLUMN_DENSE] = "dense", [COX_COLUMN_KEY] = "key",
    [COX_COLUMN_BYTES] = "bytes",
};

enum { NUMBER_DIGITS = 6 }; /* of a field's number in csv without a header */

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

const char *coxi_format_name(uint32_t format)
{
    return format > 0 && format < LENGTH(format_names) ? format_names[format]
                                                       : "unknown";
}

static const char *kind_name(uint32_t kind)
{
    return kind > 0 && kind < LENGTH(kind_names) ? kind_names[kind] : "unknown";
}

/* ---- checking */

static bool has_columns(const struct coxi_decoding *d)
{
    return d->format == COX_CSV || d->content == COX_EXAMPLE;
}

/* Checks what the fields of a column may be for its kind. */
static int check_column(const struct coxi_decoding *d, const struct cox_column *column)
{
    const char *name = column->name;
    uint32_t kind = column->kind;
    bool is_number = kind == COX_COLUMN_LABEL || kind == COX_COLUMN_WEIGHT ||
                     kind == COX_COLUMN_DENSE;
    if (kind == 0 || kind >= LENGTH(kind_names)) {
        return coxi_error(COX_EINVAL, "column '%s' has kind %u: 1 to %zu", name, kind,
                          LENGTH(kind_names) - 1);
    }
    if (column->width > (kind == COX_COLUMN_DENSE ? COXI_DENSE_MAX : 0)) {
        return coxi_error(COX_EINVAL,
                          "column '%s' has width %u: it is for dense columns, and at "
                          "most %d",
                          name, column->width, COXI_DENSE_MAX);
    }
    if (column->width > 1 && d->format == COX_CSV) {
        return coxi_error(COX_EINVAL, "column '%s' has width %u: a field is one number",
                          name, column->width);
    }
    if (column->log > is_number) {
        return coxi_error(COX_EINVAL, "column '%s' has log %u: 0, or 1 for numbers",
                          name, column->log);
    }
    if (column->integers > (kind == COX_COLUMN_KEY)) {
        return coxi_error(COX_EINVAL, "column '%s' has integers %u: 0, or 1 for keys",
                          name, column->integers);
    }
    if (column->buckets != 0 && kind != COX_COLUMN_KEY) {
        return coxi_error(COX_EINVAL, "column '%s' has buckets, which are for keys",
                          name);
    }
    return 0;
}

/* True if the kind may occur only once. */
static bool is_single(uint32_t kind)
{
    return kind == COX_COLUMN_LABEL || kind == COX_COLUMN_WEIGHT ||
           kind == COX_COLUMN_BYTES;
}

/* True if a name is the number of a field. */
static bool is_number(const char *name)
{
    size_t len = strlen(name);
    return len <= NUMBER_DIGITS && strspn(name, "0123456789") == len;
}

static int check_columns(const struct coxi_decoding *d)
{
    size_t counts[LENGTH(kind_names)] = {0};
    uint64_t width = 0;
    for (uint32_t i = 0; i < d->n_columns; i++) {
        const struct cox_column *column = &d->columns[i];
        if (column->name == NULL || column->name[0] == '\0' ||
            strlen(column->name) > COXI_COLUMN_NAME_MAX) {
            return coxi_error(COX_EINVAL,
                              "column %u has a name of 0 or of more than "
                              "%d bytes",
                              i, COXI_COLUMN_NAME_MAX);
        }
        if (d->format == COX_CSV && d->header == 0 && !is_number(column->name)) {
            return coxi_error(COX_EINVAL,
                              "column '%s': without a header, columns of csv are named "
                              "by their numbers, from 0",
                              column->name);
        }
        int r = check_column(d, column);
        if (r != 0) {
            return r;
        }
        if (counts[column->kind]++ > 0 && is_single(column->kind)) {
            return coxi_error(COX_EINVAL, "column '%s' is the second %s", column->name,
                              kind_name(column->kind));
        }
        bool is_dense = column->kind == COX_COLUMN_DENSE;
        width += is_dense ? (column->width > 0 ? column->width : 1) : 0;
    }
    return width <= COXI_DENSE_MAX
               ? 0
               : coxi_error(COX_EINVAL,
                            "the dense columns have %llu numbers, at most "
                            "%d",
                            (unsigned long long)width, COXI_DENSE_MAX);
}

/* Checks fields that only some formats have. */
static int check_options(const struct coxi_decoding *d)
{
    const char *format = coxi_format_name(d->format);
    bool is_binary = d->format == COX_RECORDIO || d->format == COX_TFRECORD;
    if (d->content > (is_binary ? COX_EXAMPLE : COX_RAW)) {
        return coxi_error(COX_EINVAL, "content is %u, for format %s", d->content,
                          format);
    }
    if (d->buckets != 0 && d->format != COX_CRITEO && d->format != COX_TEXT) {
        return coxi_error(COX_EINVAL, "buckets are for criteo and text, not for %s",
                          format);
    }
    if (d->header != 0 && d->format != COX_CSV && d->format != COX_CRITEO) {
        return coxi_error(COX_EINVAL, "header is for csv and criteo, not for %s",
                          format);
    }
    if (d->header > 1) {
        return coxi_error(COX_EINVAL, "header is %u: 0 or 1", d->header);
    }
    bool has_separator = d->separator != '\0';
    if (has_separator != (d->format == COX_CSV) ||
        (has_separator && strchr("\"\r\n0123456789+-.eE", d->separator) != NULL)) {
        return coxi_error(COX_EINVAL, "separator is '%c' (%d), for format %s",
                          has_separator ? d->separator : ' ', d->separator, format);
    }
    if (d->on_bad_record > COX_BAD_SKIP_TASK) {
        return coxi_error(COX_EINVAL, "on_bad_record is %u: 0 to %d", d->on_bad_record,
                          COX_BAD_SKIP_TASK);
    }
    return 0;
}

int coxi_decoding_check(const struct coxi_decoding *d)
{
    if (d->format == 0 || d->format >= LENGTH(format_names)) {
        return coxi_error(COX_EINVAL,
                          "format is %u: give one of enum cox_format, 1 (COX_RECORDIO) "
                          "to %zu (COX_TEXT)",
                          d->format, LENGTH(format_names) - 1);
    }
    int r = check_options(d);
    if (r != 0) {
        return r;
    }
    if (d->n_columns > COXI_COLUMNS_MAX || (d->n_columns > 0) != has_columns(d) ||
        (d->columns == NULL && d->n_columns > 0)) {
        return coxi_error(COX_EINVAL,
                          "there are %u columns: csv and examples have 1 to %d, other "
                          "formats none",
                          d->n_columns, COXI_COLUMNS_MAX);
    }
    return check_columns(d);
}

/* ---- packing */

void coxi_decoding_pack(const struct coxi_decoding *d, struct coxi_packer *packer)
{
    coxi_pack_number(packer, d->format);
    coxi_pack_number(packer, d->content);
    coxi_pack_number(packer, d->buckets);
    coxi_pack_number(packer, d->header);
    coxi_pack_number(packer, (uint8_t)d->separator);
    coxi_pack_number(packer, d->on_bad_record);
    coxi_pack_number(packer, d->n_columns);
    for (uint32_t i = 0; i < d->n_columns; i++) {
        const struct cox_column *column = &d->columns[i];
        coxi_pack_text(packer, column->name);
        coxi_pack_number(packer, column->kind);
        coxi_pack_number(packer, column->width);
        coxi_pack_float(packer, column->missing);
        coxi_pack_number(packer, column->log);
        coxi_pack_number(packer, column->integers);
        coxi_pack_number(packer, column->buckets);
    }
}

static struct cox_column unpack_column(struct coxi_unpacker *unpacker)
{
    struct cox_column column = {0};
    column.name = coxi_unpack_text(unpacker, COXI_COLUMN_NAME_MAX);
    column.kind = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    column.width = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    column.missing = coxi_unpack_float(unpacker);
    column.log = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    column.integers = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    column.buckets = coxi_unpack_number(unpacker, UINT64_MAX);
    return column;
}

int coxi_decoding_unpack(struct coxi_unpacker *unpacker, struct coxi_decoding *ret)
{
    struct coxi_decoding d = {0};
    d.format = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    d.content = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    d.buckets = coxi_unpack_number(unpacker, UINT64_MAX);
    d.header = (uint32_t)coxi_unpack_number(unpacker, 1);
    d.separator = (char)coxi_unpack_number(unpacker, UINT8_MAX);
    d.on_bad_record = (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
    d.n_columns = (uint32_t)coxi_unpack_number(unpacker, COXI_COLUMNS_MAX);
    if (d.n_columns > 0) {
        struct cox_column *columns = calloc(d.n_columns, sizeof(*columns));
        if (columns == NULL) {
            return coxi_error_memory("the columns of a data set");
        }
        for (uint32_t i = 0; i < d.n_columns; i++) {
            columns[i] = unpack_column(unpacker);
        }
        d.columns = columns;
    }
    if (unpacker->bad || coxi_decoding_check(&d) != 0) {
        coxi_decoding_fini(&d);
        return unpacker->bad ? coxi_error(COX_EFORMAT, "it is cut or malformed")
                             : coxi_error(COX_EFORMAT, "%s", coxi_error_text());
    }
    *ret = d;
    return 0;
}

void coxi_decoding_fini(struct coxi_decoding *d)
{
    free((void *)(uintptr_t)d->columns);
    d->columns = NULL;
    d->n_columns = 0;
}

/* ---- differences */

static void differ_column(const struct cox_column *a, const struct cox_column *b,
                          const struct coxi_differences *list)
{
    char name[COXI_COLUMN_NAME_MAX + 32];
    coxi_differ_text(list, "a column", a->name, b->name);
    if (strcmp(a->name, b->name) != 0) {
        return;
    }
#define NAME(field) ((void)snprintf(name, sizeof(name), "%s." field, a->name), name)
    coxi_differ_text(list, NAME("kind"), kind_name(a->kind), kind_name(b->kind));
    coxi_differ_number(list, NAME("width"), a->width, b->width);
    coxi_differ_float(list, NAME("missing"), a->missing, b->missing);
    coxi_differ_number(list, NAME("log"), a->log, b->log);
    coxi_differ_number(list, NAME("integers"), a->integers, b->integers);
    coxi_differ_number(list, NAME("buckets"), a->buckets, b->buckets);
#undef NAME
}

void coxi_decoding_differ(const struct coxi_decoding *a, const struct coxi_decoding *b,
                          const struct coxi_differences *list)
{
    const char x[2] = {a->separator};
    const char y[2] = {b->separator};
    coxi_differ_text(list, "format", coxi_format_name(a->format),
                     coxi_format_name(b->format));
    coxi_differ_number(list, "content", a->content, b->content);
    coxi_differ_number(list, "buckets", a->buckets, b->buckets);
    coxi_differ_number(list, "header", a->header, b->header);
    coxi_differ_text(list, "separator", x, y);
    coxi_differ_number(list, "on_bad_record", a->on_bad_record, b->on_bad_record);
    coxi_differ_number(list, "the number of columns", a->n_columns, b->n_columns);
    for (uint32_t i = 0; i < a->n_columns && i < b->n_columns; i++) {
        differ_column(&a->columns[i], &b->columns[i], list);
    }
}
