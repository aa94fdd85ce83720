/*
 * coxswain data shard: many files become N, whose numbers of records differ by one at
 * most, shuffled in bounded memory (buckets.h). They get their names when all are written,
 * so a failure leaves an earlier set of files as it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buckets.h"
#include "cli/data_command.h"
#include "cli/data_output.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"
#include "data/name.h"

struct config {
    struct coxi_data_input input;
    int64_t files;
    int64_t seed;
    int64_t memory;
    const char *to;
    const char *codec;
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "files",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, files),
     .min = 1,
     .max = 99999,
     .fallback = "16",
     .help = "write so many files; with more than one, their numbers come before the "
             "name's ending: part-00000.recordio"},
    {.name = "seed",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, seed),
     .max = 9e15,
     .fallback = "1",
     .help = "of the order"},
    {.name = "memory",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct config, memory),
     .min = 1 << 16,
     .max = COXI_BYTES_MAX,
     .fallback = "1G",
     .help = "about how much memory to use"},
    COXI_DATA_TO(struct config),
    COXI_DATA_CODEC(struct config),
    COXI_DATA_JSON(struct config),
    COXI_DATA_INPUT(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data shard",
    .usage = "[options] FILE... OUT",
    .summary =
        "Shuffles the records of files into new files, whose numbers of records "
        "differ by one at\nmost. Needs room for all records beside OUT while it runs. "
        "With --header each new file\nof lines begins with the first file's header. "
        "For example:\n"
        "  coxswain data shard --files 64 --memory 4G raw/*.libsvm clicks.libsvm\n"
        "  coxswain data shard --codec snappy --format criteo day-* day.recordio",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

enum { GZIP_RATIO = 8 }; /* inflated files are about so much larger */

/* A command at work. */
struct shard {
    const struct config *config;
    const char *out;
    uint32_t format; /* of the output */
    struct coxi_progress progress;
    struct coxi_buckets *buckets;
    char *header; /* NULL: there is none */
    uint64_t records;
    uint64_t files;   /* finished */
    uint64_t written; /* records of the file at hand */
    struct coxi_data_output *output;
};

/* ---- to the buckets */

static int scatter(struct shard *shard, const char *file)
{
    struct coxi_data_scan scan;
    struct coxi_progress *progress = &shard->progress;
    int r = coxi_data_scan_open(file, &shard->config->input, COXI_DATA_RAW, &scan);
    while (r == 0 && (r = coxi_data_scan_next(&scan, 1024)) == 0) {
        for (size_t i = 0; r == 0 && i < scan.rows.n; i++) {
            const struct cox_bytes *record = &scan.rows.bytes[i];
            r = coxi_data_output_fits(shard->out, shard->format, &scan, i);
            r = r == 0 ? coxi_buckets_add(shard->buckets, record->data, record->len)
                       : r;
        }
        shard->records += scan.rows.n;
        coxi_progress_show(progress, progress->done + coxi_data_scan_at(&scan));
    }
    progress->done += scan.bytes;
    coxi_data_scan_close(&scan);
    return r == COX_EEOF ? 0 : r;
}

/* Keeps the first line of the first file for all new ones. */
static int read_header(struct shard *shard, const char *file)
{
    struct coxi_data_input input = shard->config->input;
    struct coxi_data_scan scan;
    if (!input.header || shard->format != COX_TEXT) {
        return 0;
    }
    input.header = false;
    int r = coxi_data_scan_open(file, &input, COXI_DATA_RAW, &scan);
    r = r == 0 ? coxi_data_scan_next(&scan, 1) : r;
    if (r == 0) {
        const struct cox_bytes *line = &scan.rows.bytes[0];
        shard->header = strndup((const char *)line->data, line->len);
        r = shard->header == NULL ? coxi_error_memory("a header") : 0;
    }
    coxi_data_scan_close(&scan);
    return r == COX_EEOF ? 0 : r;
}

/* ---- to the files */

/* The records of file `k`. */
static uint64_t share(const struct shard *shard, uint64_t k)
{
    uint64_t files = (uint64_t)shard->config->files;
    return shard->records / files + (k < shard->records % files);
}

/* The name of file `k`, and where it is until all are written. */
static int name_file(const struct shard *shard, uint64_t k, char ret[PATH_MAX],
                     char ret_new[PATH_MAX])
{
    int r = coxi_data_part_name(shard->out, k, (uint64_t)shard->config->files, ret);
    if (r != 0) {
        return r;
    }
    const char *slash = strrchr(ret, '/');
    return coxi_path(ret_new, "%s/new-%s", coxi_buckets_dir(shard->buckets),
                     slash != NULL ? slash + 1 : ret);
}

static int begin_file(struct shard *shard)
{
    char name[PATH_MAX];
    char path[PATH_MAX];
    int r = name_file(shard, shard->files, name, path);
    if (r == 0) {
        r = coxi_data_output_open(
            path, shard->format, coxi_data_codec(shard->config->codec), &shard->output);
    }
    if (r == 0 && shard->header != NULL) {
        r = coxi_data_output_add(shard->output, shard->header, strlen(shard->header));
    }
    return r;
}

/* Finishes all files that are full, and begins the next one; after the last one none is
 * open. */
static int turn(struct shard *shard)
{
    int r = 0;
    while (r == 0 && shard->files < (uint64_t)shard->config->files) {
        if (shard->output == NULL) {
            r = begin_file(shard);
        } else if (shard->written == share(shard, shard->files)) {
            r = coxi_data_output_finish(shard->output);
            shard->output = NULL;
            shard->files += r == 0;
            shard->written = 0;
        } else {
            break;
        }
    }
    return r;
}

static int gather(struct shard *shard, uint64_t bytes)
{
    const struct cox_bytes *records;
    uint64_t done = 0;
    size_t n;
    int r = turn(shard);
    while (r == 0 && (r = coxi_buckets_take(shard->buckets, &records, &n)) == 0) {
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = coxi_data_output_add(shard->output, records[i].data, records[i].len);
            shard->written++;
            r = r == 0 ? turn(shard) : r;
        }
        done += n;
        r = r == 0 ? coxi_data_check_interrupted() : r;
        coxi_progress_show(&shard->progress,
                           bytes + (uint64_t)((double)bytes * (double)done /
                                              (double)(shard->records + 1)));
    }
    return r == COX_EEOF ? 0 : r;
}

/* Gives all files their names. */
static int name_files(const struct shard *shard)
{
    int r = coxi_data_check_interrupted();
    for (uint64_t k = 0; r == 0 && k < shard->files; k++) {
        char name[PATH_MAX];
        char path[PATH_MAX];
        r = name_file(shard, k, name, path);
        if (r == 0 && rename(path, name) != 0) {
            r = coxi_error_errno(COX_EIO, "cannot write %s", name);
        }
    }
    return r;
}

/* ---- all of it */

static int check_names(const struct shard *shard, char *const *files, size_t n)
{
    int r = coxi_data_parts_check(shard->out, (uint64_t)shard->config->files);
    for (int64_t i = 0; r == 0 && i < shard->config->files; i++) {
        char path[PATH_MAX];
        r = coxi_data_part_name(shard->out, (uint64_t)i, (uint64_t)shard->config->files,
                                path);
        r = r == 0 ? coxi_data_output_check(path, files, n) : r;
    }
    return r;
}

/* About how many bytes the records have. */
static uint64_t guess_bytes(char *const *files, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t stored = coxi_progress_bytes(&files[i], 1);
        bytes += coxi_name_inflates(files[i]) ? stored * GZIP_RATIO : stored;
    }
    return bytes;
}

static int shard_files(struct shard *shard, char *const *files, size_t n)
{
    uint64_t seed = (uint64_t)shard->config->seed;
    uint64_t bytes = coxi_progress_bytes(files, n);
    int r = check_names(shard, files, n);
    r = r == 0 ? read_header(shard, files[0]) : r;
    if (r == 0) {
        r = coxi_buckets_new(shard->out, guess_bytes(files, n),
                             (uint64_t)shard->config->memory, coxi_rand(&seed),
                             &shard->buckets);
    }
    coxi_progress_begin(&shard->progress, "sharding", 2 * bytes);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = scatter(shard, files[i]);
    }
    r = r == 0 ? gather(shard, bytes) : r;
    coxi_progress_clear(&shard->progress);
    coxi_data_output_abandon(shard->output);
    r = r == 0 ? name_files(shard) : r;
    coxi_buckets_free(shard->buckets);
    free(shard->header);
    return r;
}

int coxi_data_shard(int argc, char **argv)
{
    struct config config = {0};
    char **files;
    size_t n;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 2, &files, &n, &code)) {
        return code;
    }
    struct shard shard = {.config = &config, .out = files[n - 1]};
    shard.format = coxi_data_output_format(shard.out, config.to);
    int r = coxi_data_input_parse(&config.input);
    r = r == 0 ? shard_files(&shard, files, n - 1) : r;
    coxi_data_input_fini(&config.input);
    if (r == 0 && config.json) {
        r = coxi_data_print(json_pack("{s:I, s:I}", "records",
                                      (json_int_t)shard.records, "files",
                                      (json_int_t)config.files));
    } else if (r == 0) {
        (void)printf("%" PRIu64 " record%s in %" PRId64 " file%s\n", shard.records,
                     coxi_s(shard.records), config.files,
                     coxi_s((unsigned long long)config.files));
    }
    return coxi_data_exit(&program, r);
}
