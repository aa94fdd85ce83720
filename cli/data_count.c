/* coxswain data count: records, bytes, labels and features of files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/data_command.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "data/name.h"

struct config {
    struct coxi_data_input input;
    bool json;
};

static const struct coxi_option options[] = {
    COXI_DATA_JSON(struct config),
    COXI_DATA_INPUT(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data count",
    .usage = "[options] FILE...",
    .summary =
        "Counts the records of files, their labels, and their features (the least, "
        "the\naverage and the most of a record). Bad records are left out and "
        "counted;\nverify tells where they are. For example:\n"
        "  coxswain data count clicks-*.libsvm\n"
        "  coxswain data count --json --format criteo day-0.gz",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

struct counts {
    uint64_t records;
    uint64_t bytes;        /* of the files as they are stored */
    uint64_t record_bytes; /* of raw records and texts */
    uint64_t bad;
    bool has_labels;
    uint64_t positive; /* labels above 0 */
    double label_sum;
    double label_least;
    double label_most;
    bool has_features;
    uint64_t features;
    uint64_t features_least;
    uint64_t features_most;
};

static const struct counts none = {
    .label_least = INFINITY, .label_most = -INFINITY, .features_least = UINT64_MAX};

static double average(double sum, uint64_t n)
{
    return n > 0 ? sum / (double)n : 0;
}

static void add_labels(struct counts *counts, const struct coxi_rows *rows)
{
    counts->has_labels = true;
    for (size_t i = 0; i < rows->n; i++) {
        double label = (double)rows->labels[i];
        counts->label_sum += label;
        counts->positive += label > 0;
        counts->label_least = fmin(counts->label_least, label);
        counts->label_most = fmax(counts->label_most, label);
    }
}

static void add_features(struct counts *counts, const struct coxi_rows *rows)
{
    counts->has_features = true;
    for (size_t i = 0; i < rows->n; i++) {
        uint64_t n = rows->begin[i + 1] - rows->begin[i];
        counts->features += n;
        counts->features_least =
            n < counts->features_least ? n : counts->features_least;
        counts->features_most = n > counts->features_most ? n : counts->features_most;
    }
}

static void add_rows(struct counts *counts, const struct coxi_rows *rows)
{
    counts->records += rows->n;
    if (rows->labels != NULL) {
        add_labels(counts, rows);
    }
    if (rows->begin != NULL) {
        add_features(counts, rows);
    }
    for (size_t i = 0; rows->bytes != NULL && i < rows->n; i++) {
        counts->record_bytes += rows->bytes[i].len;
    }
}

static void add_counts(struct counts *to, const struct counts *from)
{
    to->records += from->records;
    to->bytes += from->bytes;
    to->record_bytes += from->record_bytes;
    to->bad += from->bad;
    to->has_labels |= from->has_labels;
    to->positive += from->positive;
    to->label_sum += from->label_sum;
    to->label_least = fmin(to->label_least, from->label_least);
    to->label_most = fmax(to->label_most, from->label_most);
    to->has_features |= from->has_features;
    to->features += from->features;
    to->features_least = from->features_least < to->features_least
                             ? from->features_least
                             : to->features_least;
    to->features_most = from->features_most > to->features_most ? from->features_most
                                                                : to->features_most;
}

static int count(const char *file, const struct config *config,
                 struct coxi_progress *progress, struct counts *ret)
{
    struct coxi_data_scan scan;
    struct counts counts = none;
    int r = coxi_data_scan_open(file, &config->input, COXI_DATA_DECODED, &scan);
    scan.bad.leaves_out = true;
    while (r == 0 && (r = coxi_data_scan_next(&scan, 1024)) == 0) {
        add_rows(&counts, &scan.rows);
        coxi_progress_show(progress, progress->done + coxi_data_scan_at(&scan));
    }
    counts.bytes = scan.bytes;
    counts.bad = scan.bad.counts.bad;
    progress->done += scan.bytes;
    coxi_data_scan_close(&scan);
    if (r == COX_EEOF) {
        *ret = counts;
    }
    return r == COX_EEOF ? 0 : r;
}

/* ---- output */

static void print_title(void)
{
    (void)printf("%12s %14s %8s  %-26s %-26s %s\n", "records", "bytes", "bad",
                 "features least/avg/most", "label least/avg/most", "file");
}

static void print_counts(const struct counts *c, const char *file)
{
    char features[64] = "-";
    char labels[64] = "-";
    if (c->has_features && c->records > 0) {
        (void)snprintf(features, sizeof(features), "%" PRIu64 " / %.2f / %" PRIu64,
                       c->features_least, average((double)c->features, c->records),
                       c->features_most);
    }
    if (c->has_labels && c->records > 0) {
        (void)snprintf(labels, sizeof(labels), "%g / %g / %g", c->label_least,
                       average(c->label_sum, c->records), c->label_most);
    }
    (void)printf("%12" PRIu64 " %14" PRIu64 " %8" PRIu64 "  %-26s %-26s %s\n",
                 c->records, c->bytes, c->bad, features, labels, file);
}

static json_t *counts_json(const struct counts *c)
{
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:I}", "records", (json_int_t)c->records, "bytes",
                  (json_int_t)c->bytes, "record_bytes", (json_int_t)c->record_bytes,
                  "bad", (json_int_t)c->bad);
    if (c->has_labels && c->records > 0) {
        (void)json_object_set_new(
            object, "labels",
            json_pack("{s:f, s:f, s:f, s:I}", "least", c->label_least, "average",
                      average(c->label_sum, c->records), "most", c->label_most,
                      "positive", (json_int_t)c->positive));
    }
    if (c->has_features && c->records > 0) {
        (void)json_object_set_new(object, "features",
                                  json_pack("{s:I, s:I, s:f, s:I}", "all",
                                            (json_int_t)c->features, "least",
                                            (json_int_t)c->features_least, "average",
                                            average((double)c->features, c->records),
                                            "most", (json_int_t)c->features_most));
    }
    return object;
}

static int count_files(const struct config *config, char *const *files, size_t n)
{
    struct counts all = none;
    struct coxi_progress progress;
    json_t *list = json_array();
    int r = 0;
    coxi_progress_begin(&progress, "counting", coxi_progress_bytes(files, n));
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct counts one;
        r = count(files[i], config, &progress, &one);
        coxi_progress_clear(&progress);
        if (r != 0) {
            break;
        }
        add_counts(&all, &one);
        if (config->json) {
            json_t *object = counts_json(&one);
            (void)json_object_set_new(object, "file",
                                      json_string(coxi_name_shown(files[i]).text));
            (void)json_array_append_new(list, object);
        } else {
            if (i == 0) {
                print_title();
            }
            print_counts(&one, coxi_name_shown(files[i]).text);
        }
    }
    if (r == 0 && config->json) {
        return coxi_data_print(
            json_pack("{s:o, s:o}", "files", list, "total", counts_json(&all)));
    }
    json_decref(list);
    if (r == 0 && n > 1) {
        print_counts(&all, "total");
    }
    return r;
}

int coxi_data_count(int argc, char **argv)
{
    struct config config = {0};
    char **files;
    size_t n;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 1, &files, &n, &code)) {
        return code;
    }
    int r = coxi_data_input_parse(&config.input);
    r = r == 0 ? count_files(&config, files, n) : r;
    coxi_data_input_fini(&config.input);
    return coxi_data_exit(&program, r);
}
