/* coxswain data head: the first records of files, as a person reads them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/data_command.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "data/name.h"

struct config {
    struct coxi_data_input input;
    int64_t records;
    bool raw;
    bool full;
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "records",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, records),
     .min = 1,
     .max = 1e15,
     .fallback = "10",
     .help = "print so many records of each file"},
    {.name = "raw",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, raw),
     .help = "print the records' bytes, not what a step gets"},
    {.name = "full",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, full),
     .help = "print all features and bytes of a record, not only the first ones"},
    COXI_DATA_JSON(struct config),
    COXI_DATA_INPUT(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data head",
    .usage = "[options] FILE...",
    .summary =
        "Prints the first records of files, one a line: the record's offset, and "
        "what a\nstep gets of it. With --json each line is an object. For example:\n"
        "  coxswain data head --records 3 clicks.libsvm\n"
        "  coxswain data head --format criteo day-0.gz\n"
        "  coxswain data head --column price:dense:log --column shop:key sales.csv",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

enum { FEATURES = 12, BYTES = 100 };

/* ---- as text */

static size_t shown(size_t n, size_t most, bool full)
{
    return full || n < most ? n : most;
}

static bool is_utf8(const uint8_t *bytes, size_t n)
{
    json_t *text = json_stringn((const char *)bytes, n);
    json_decref(text);
    return text != NULL;
}

static void print_bytes(const struct cox_bytes *bytes, bool full)
{
    size_t n = shown(bytes->len, BYTES, full);
    while (n > 0 && n < bytes->len && (bytes->data[n] & 0xc0) == 0x80) {
        n--; /* not within a character */
    }
    unsigned most = is_utf8(bytes->data, n) ? UINT8_MAX : 0x7e;
    (void)printf("  %zu byte%s \"", bytes->len, coxi_s(bytes->len));
    for (size_t i = 0; i < n; i++) {
        uint8_t c = bytes->data[i];
        (void)printf(c == '"' || c == '\\'                ? "\\%c"
                     : c >= ' ' && c != 0x7f && c <= most ? "%c"
                                                          : "\\x%02x",
                     c);
    }
    (void)printf("\"%s", n < bytes->len ? " ..." : "");
}

/* Of words, which are printed as text, the hashes are printed only if all are. */
static void print_features(const struct coxi_rows *rows, size_t r, bool full)
{
    size_t begin = (size_t)rows->begin[r];
    size_t all = (size_t)rows->begin[r + 1] - begin;
    size_t n = shown(all, rows->bytes != NULL ? 0 : FEATURES, full);
    (void)printf("  %zu feature%s", all, coxi_s(all));
    for (size_t i = begin; i < begin + n; i++) {
        (void)putchar(' ');
        if (rows->fields != NULL) {
            (void)printf("%" PRIu32 ":", rows->fields[i]);
        }
        (void)printf("%" PRIu64, rows->keys[i]);
        if (rows->values != NULL) {
            (void)printf(":%g", (double)rows->values[i]);
        }
    }
    (void)printf("%s", n > 0 && n < all ? " ..." : "");
}

static void print_dense(const struct coxi_rows *rows, size_t r, bool full)
{
    size_t all = rows->shape.n_dense;
    size_t n = shown(all, FEATURES, full);
    (void)printf("  dense");
    for (size_t i = 0; i < n; i++) {
        (void)printf(" %g", (double)rows->dense[r * all + i]);
    }
    (void)printf("%s", n < all ? " ..." : "");
}

static void print_record(const struct coxi_rows *rows, size_t r, bool full)
{
    (void)printf("%12" PRIu64, rows->offsets[r]);
    if (rows->labels != NULL) {
        (void)printf("  label %g", (double)rows->labels[r]);
    }
    if (rows->weights != NULL) {
        (void)printf("  weight %g", (double)rows->weights[r]);
    }
    if (rows->shape.n_dense > 0) {
        print_dense(rows, r, full);
    }
    if (rows->begin != NULL) {
        print_features(rows, r, full);
    }
    if (rows->bytes != NULL) {
        print_bytes(&rows->bytes[r], full);
    }
    (void)putchar('\n');
}

/* ---- as JSON */

static json_t *reals(const float *numbers, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(all, json_real((double)numbers[i]));
    }
    return all;
}

static void add_features(const struct coxi_rows *rows, size_t r, json_t *object)
{
    size_t begin = (size_t)rows->begin[r];
    size_t n = (size_t)rows->begin[r + 1] - begin;
    json_t *keys = json_array();
    json_t *fields = json_array();
    for (size_t i = begin; i < begin + n; i++) {
        char text[24]; /* a key may be larger than JSON's integers */
        (void)snprintf(text, sizeof(text), "%" PRIu64, rows->keys[i]);
        (void)json_array_append_new(keys, json_string(text));
        if (rows->fields != NULL) {
            (void)json_array_append_new(fields, json_integer(rows->fields[i]));
        }
    }
    (void)json_object_set_new(object, "keys", keys);
    if (rows->fields != NULL) {
        (void)json_object_set(object, "fields", fields);
    }
    json_decref(fields);
    if (rows->values != NULL) {
        (void)json_object_set_new(object, "values", reals(rows->values + begin, n));
    }
}

/* Bytes as text if they are UTF-8, and otherwise as hexadecimal digits. */
static int add_bytes(const struct cox_bytes *bytes, json_t *object)
{
    json_t *text = json_stringn((const char *)bytes->data, bytes->len);
    if (text != NULL) {
        (void)json_object_set_new(object, "bytes", text);
        return 0;
    }
    char *hex = malloc(2 * bytes->len + 1);
    if (hex == NULL) {
        return coxi_error_memory("a record");
    }
    for (size_t i = 0; i < bytes->len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes->data[i]);
    }
    (void)json_object_set_new(object, "hex", json_string(hex));
    free(hex);
    return 0;
}

static int print_json(const struct coxi_rows *rows, size_t r, const char *file)
{
    json_t *object =
        json_pack("{s:s, s:I}", "file", file, "offset", (json_int_t)rows->offsets[r]);
    int code = 0;
    if (rows->labels != NULL) {
        (void)json_object_set_new(object, "label", json_real((double)rows->labels[r]));
    }
    if (rows->weights != NULL) {
        (void)json_object_set_new(object, "weight",
                                  json_real((double)rows->weights[r]));
    }
    if (rows->shape.n_dense > 0) {
        size_t n = rows->shape.n_dense;
        (void)json_object_set_new(object, "dense", reals(rows->dense + r * n, n));
    }
    if (rows->begin != NULL) {
        add_features(rows, r, object);
    }
    if (rows->bytes != NULL) {
        code = add_bytes(&rows->bytes[r], object);
    }
    if (code != 0) {
        json_decref(object);
        return code;
    }
    return coxi_data_print(object);
}

/* ---- files */

static int print_records(struct coxi_data_scan *scan, const struct config *config)
{
    int r = 0;
    for (int64_t left = config->records; r == 0 && left > 0;) {
        r = coxi_data_scan_next(scan, left < 256 ? (size_t)left : 256);
        for (size_t i = 0; r == 0 && i < scan->rows.n; i++) {
            if (config->json) {
                r = print_json(&scan->rows, i, scan->source.name);
            } else {
                print_record(&scan->rows, i, config->full);
            }
        }
        left -= (int64_t)scan->rows.n;
    }
    return r == COX_EEOF ? 0 : r;
}

static int head(const char *file, const struct config *config)
{
    struct coxi_data_scan scan;
    enum coxi_data_view view = config->raw ? COXI_DATA_RAW : COXI_DATA_DECODED;
    int r = coxi_data_scan_open(file, &config->input, view, &scan);
    r = r == 0 ? print_records(&scan, config) : r;
    coxi_data_scan_close(&scan);
    return r;
}

int coxi_data_head(int argc, char **argv)
{
    struct config config = {0};
    char **files;
    size_t n;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 1, &files, &n, &code)) {
        return code;
    }
    int r = coxi_data_input_parse(&config.input);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (n > 1 && !config.json) {
            (void)printf("%s%s\n", i > 0 ? "\n" : "", coxi_name_shown(files[i]).text);
        }
        r = head(files[i], &config);
    }
    coxi_data_input_fini(&config.input);
    return coxi_data_exit(&program, r);
}
