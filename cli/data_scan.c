/* See data_scan.h. */
#include "cli/data_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data_command.h"
#include "common/crc.h"
#include "common/error.h"
#include "data/format_lines.h"
#include "data/formats.h"
#include "data/name.h"
#include "data/sources.h"

/* ---- columns */

static const char *const kinds[] = {"label", "weight", "dense", "key", "bytes"};

static bool parse_number(const char *text, double most, double *ret)
{
    char *end;
    errno = 0;
    *ret = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && *ret <= most;
}

static bool parse_integer(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
           *ret <= most;
}

/* Applies "log", "width=16" ...; false: it is none of them. */
static bool parse_trait(const char *text, struct cox_column *column)
{
    double x = 0;
    uint64_t n = 0;
    if (strcmp(text, "log") == 0) {
        column->log = 1;
    } else if (strcmp(text, "integers") == 0) {
        column->integers = 1;
    } else if (strncmp(text, "missing=", 8) == 0 && parse_number(text + 8, 3e38, &x)) {
        column->missing = (float)x;
    } else if (strncmp(text, "width=", 6) == 0 &&
               parse_integer(text + 6, UINT32_MAX, &n)) {
        column->width = (uint32_t)n;
    } else if (strncmp(text, "buckets=", 8) == 0 &&
               parse_integer(text + 8, UINT64_MAX, &n)) {
        column->buckets = n;
    } else {
        return false;
    }
    return true;
}

/* Cuts the text at its colons; its first part stays as the column's name. */
static int parse_column(char *text, struct cox_column *column)
{
    char *rest = text;
    column->name = strsep(&rest, ":");
    const char *kind = rest != NULL ? strsep(&rest, ":") : "";
    for (uint32_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            column->kind = i + 1; /* enum cox_column_kind */
        }
    }
    if (column->kind == 0) {
        return coxi_error(COX_EINVAL,
                          "--column %s:%s: say NAME:KIND, KIND one of label, weight, "
                          "dense, key, bytes",
                          column->name, kind);
    }
    for (const char *trait; rest != NULL && (trait = strsep(&rest, ":")) != NULL;) {
        if (!parse_trait(trait, column)) {
            return coxi_error(COX_EINVAL,
                              "--column %s:%s: '%s' is none of width=N, missing=X, "
                              "log, integers, buckets=N",
                              column->name, kind, trait);
        }
    }
    return 0;
}

int coxi_data_input_parse(struct coxi_data_input *input)
{
    size_t n = input->column.n;
    if (n == 0) {
        return 0;
    }
    input->columns = calloc(n, sizeof(*input->columns));
    int r = input->columns == NULL ? coxi_error_memory("columns") : 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        char *text = strdup(input->column.all[i]); /* freed as the column's name */
        r = text == NULL ? coxi_error_memory("columns")
                         : parse_column(text, &input->columns[i]);
    }
    return r;
}

void coxi_data_input_fini(struct coxi_data_input *input)
{
    for (size_t i = 0; input->columns != NULL && i < input->column.n; i++) {
        free((void *)(uintptr_t)input->columns[i].name);
    }
    free(input->columns);
    input->columns = NULL;
}

/* ---- formats */

static const struct {
    const char *end;
    uint32_t format;
} ends[] = {
    {".recordio", COX_RECORDIO}, {".tfrecord", COX_TFRECORD}, {".libsvm", COX_LIBSVM},
    {".libffm", COX_LIBFFM},     {".csv", COX_CSV},           {".tsv", COX_CSV},
    {".txt", COX_TEXT},
};

uint32_t coxi_data_guess_format(const char *file)
{
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        if (coxi_name_has_format(file, ends[i].end)) {
            return ends[i].format;
        }
    }
    return 0;
}

static uint32_t format_number(const char *name)
{
    uint32_t format = COX_RECORDIO;
    while (strcmp(coxi_format_name(format), name) != 0) {
        format++; /* `name` is one of COXI_DATA_FORMATS */
    }
    return format;
}

static int find_separator(const struct coxi_data_input *input, const char *file,
                          char *ret)
{
    const char *text = input->separator;
    if (text == NULL) {
        *ret = ',';
        if (coxi_name_has_format(file, ".tsv")) {
            *ret = '\t';
        }
    } else if (strcmp(text, "tab") == 0) {
        *ret = '\t';
    } else if (strlen(text) == 1) {
        *ret = text[0];
    } else {
        return coxi_error(COX_EINVAL,
                          "--separator takes a character or 'tab', not "
                          "'%s'",
                          text);
    }
    return 0;
}

int coxi_data_decoding(const struct coxi_data_input *input, const char *file,
                       struct coxi_decoding *ret)
{
    struct coxi_decoding d = {.columns = input->columns,
                              .n_columns = (uint32_t)input->column.n,
                              .buckets = (uint64_t)input->buckets,
                              .header = input->header};
    int r = 0;
    d.format = input->format != NULL ? format_number(input->format)
                                     : coxi_data_guess_format(file);
    if (d.format == 0) {
        return coxi_error(COX_EINVAL,
                          "%s: its name does not tell the format; say "
                          "--format " COXI_DATA_FORMATS,
                          coxi_name_shown(file).text);
    }
    if (d.format == COX_CSV) {
        r = find_separator(input, file, &d.separator);
    } else if (input->separator != NULL) {
        r = coxi_error(COX_EINVAL, "--separator is for csv, and %s is %s",
                       coxi_name_shown(file).text, coxi_format_name(d.format));
    } else if (d.n_columns > 0 && coxi_data_is_lines(d.format)) {
        r = coxi_error(COX_EINVAL,
                       "--column is for csv, recordio and tfrecord, and %s is %s",
                       coxi_name_shown(file).text, coxi_format_name(d.format));
    } else if (d.n_columns > 0) {
        d.content = COX_EXAMPLE;
    }
    if (r == 0 && !(d.format == COX_CSV && d.n_columns == 0)) {
        r = coxi_decoding_check(&d);
    }
    if (r == 0) {
        *ret = d;
    }
    return r;
}

bool coxi_data_is_lines(uint32_t format)
{
    return format != COX_RECORDIO && format != COX_TFRECORD;
}

/* ---- scanning */

static int choose_format(struct coxi_data_scan *scan, enum coxi_data_view view)
{
    struct coxi_decoding *d = &scan->decoding;
    scan->decoded =
        view == COXI_DATA_DECODED && (d->format != COX_CSV || d->n_columns > 0);
    if (!scan->decoded && coxi_data_is_lines(d->format)) {
        scan->format = &coxi_format_lines;
        return 0;
    }
    if (!scan->decoded) {
        d->content = COX_RAW;
    }
    scan->format = coxi_format_of(d->format);
    return scan->format != NULL ? 0
                                : coxi_error(COX_EINVAL, "this build does not read %s",
                                             coxi_format_name(d->format));
}

/* Passes the line that is no record; decoders pass it themselves. */
static int skip_header(struct coxi_data_scan *scan)
{
    bool skips = scan->format == &coxi_format_lines && scan->decoding.header != 0;
    int r = skips ? scan->format->parse(&scan->parser, &scan->rows, 1) : 0;
    coxi_rows_clear(&scan->rows);
    return r == COX_EEOF ? 0 : r;
}

int coxi_data_scan_open(const char *file, const struct coxi_data_input *input,
                        enum coxi_data_view view, struct coxi_data_scan *ret)
{
    struct coxi_data_scan *scan = ret;
    *scan = (struct coxi_data_scan){0};
    int r = coxi_data_decoding(input, file, &scan->decoding);
    r = r == 0 ? choose_format(scan, view) : r;
    r = r == 0 ? coxi_source_open(file, &scan->source) : r;
    if (r == 0) {
        coxi_data_watch(&scan->source);
        r = scan->source.kind->stat(scan->source.self, &scan->mark);
    }
    if (r == 0) {
        r = coxi_stream_open(&scan->source, 0, &scan->pool, &coxi_data_interrupted,
                             &scan->stream);
    }
    if (r != 0) {
        return r;
    }
    struct coxi_rows_shape shape = scan->format->shape(&scan->decoding);
    coxi_rows_init(&scan->rows, &shape, &scan->pool);
    scan->bytes = scan->mark.bytes;
    scan->bad.file = scan->source.name;
    scan->parser = (struct coxi_parser){.stream = &scan->stream,
                                        .decoding = &scan->decoding,
                                        .end = UINT64_MAX,
                                        .bad = &scan->bad};
    r = scan->format->open != NULL ? scan->format->open(&scan->parser) : 0;
    return r == 0 ? skip_header(scan) : r;
}

int coxi_data_scan_next(struct coxi_data_scan *scan, size_t n)
{
    coxi_rows_clear(&scan->rows);
    if (scan->ending == 0) {
        scan->ending = scan->format->parse(&scan->parser, &scan->rows, n);
        if (scan->ending == COX_EEOF) {
            int r = coxi_source_check_unchanged(&scan->source, &scan->mark);
            scan->ending = r != 0 ? r : COX_EEOF;
        }
        if (scan->ending != 0) {
            (void)snprintf(scan->text, sizeof(scan->text), "%s", coxi_error_text());
        }
    }
    if (atomic_load(&coxi_data_interrupted)) {
        return coxi_error(COX_ECANCELLED, "interrupted");
    }
    if (scan->rows.n > 0 || scan->ending == COX_EEOF) {
        return scan->rows.n > 0 ? 0 : COX_EEOF;
    }
    return coxi_error(scan->ending, "%s", scan->text);
}

int coxi_data_sum_up(const struct coxi_source *source, uint64_t from, uint64_t to,
                     uint8_t *room, uint32_t *ret)
{
    uint32_t sum = 0;
    int r = coxi_data_check_interrupted();
    while (r == 0 && from < to) {
        size_t want =
            to - from < COXI_PIECE_BYTES ? (size_t)(to - from) : COXI_PIECE_BYTES;
        size_t got = 0;
        r = coxi_source_read(source, from, room, want, &got);
        if (r == 0 && got < want) {
            r = coxi_error(COX_EIO, "%s became shorter", source->name);
        }
        sum = coxi_crc32(sum, room, got);
        from += got;
    }
    *ret = sum;
    return r;
}

uint64_t coxi_data_scan_at(const struct coxi_data_scan *scan)
{
    const struct coxi_stream *stream = &scan->stream;
    return stream->inflater != NULL ? stream->next : stream->offset;
}

void coxi_data_scan_close(struct coxi_data_scan *scan)
{
    if (scan->format != NULL && scan->format->close != NULL &&
        scan->parser.stream != NULL) {
        scan->format->close(&scan->parser);
    }
    coxi_rows_fini(&scan->rows);
    coxi_stream_close(&scan->stream);
    coxi_block_pool_fini(&scan->pool);
    coxi_data_watch(NULL);
    coxi_source_close(&scan->source);
}
