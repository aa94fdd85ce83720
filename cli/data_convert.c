/* coxswain data convert: the records of files in a file of another format. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/data_command.h"
#include "cli/data_output.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "data/codec.h"

struct config {
    struct coxi_data_input input;
    const char *to;
    const char *codec;
    bool json;
};

static const struct coxi_option options[] = {
    COXI_DATA_TO(struct config),
    COXI_DATA_CODEC(struct config),
    COXI_DATA_JSON(struct config),
    COXI_DATA_INPUT(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data convert",
    .usage = "[options] FILE... OUT",
    .summary =
        "Copies the records of files to OUT, byte by byte: chunks' records, or lines "
        "without\ntheir ends. OUT.gz is compressed as a whole. For example:\n"
        "  coxswain data convert --codec snappy clicks.libsvm clicks.recordio\n"
        "  coxswain data convert old.recordio new.tfrecord\n"
        "  coxswain data convert texts.recordio texts.txt.gz",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static int copy(const char *file, const struct config *config,
                struct coxi_progress *progress, struct coxi_data_output *output,
                uint64_t *records)
{
    struct coxi_data_scan scan;
    int r = coxi_data_scan_open(file, &config->input, COXI_DATA_RAW, &scan);
    while (r == 0 && (r = coxi_data_scan_next(&scan, 1024)) == 0) {
        for (size_t i = 0; r == 0 && i < scan.rows.n; i++) {
            r = coxi_data_output_copy(output, &scan, i);
        }
        *records += scan.rows.n;
        coxi_progress_show(progress, progress->done + coxi_data_scan_at(&scan));
    }
    progress->done += scan.bytes;
    coxi_data_scan_close(&scan);
    return r == COX_EEOF ? 0 : r;
}

static int convert(const struct config *config, char *const *files, size_t n,
                   const char *out, uint64_t *ret_records)
{
    struct coxi_progress progress;
    struct coxi_data_output *output;
    uint64_t records = 0;
    int r = coxi_data_output_check(out, files, n);
    if (r == 0) {
        r = coxi_data_output_open(out, coxi_data_output_format(out, config->to),
                                  coxi_data_codec(config->codec), &output);
    }
    if (r != 0) {
        return r;
    }
    coxi_progress_begin(&progress, "converting", coxi_progress_bytes(files, n));
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = copy(files[i], config, &progress, output, &records);
    }
    coxi_progress_clear(&progress);
    if (r != 0) {
        coxi_data_output_abandon(output);
        return r;
    }
    *ret_records = records;
    return coxi_data_output_finish(output);
}

int coxi_data_convert(int argc, char **argv)
{
    struct config config = {0};
    char **files;
    size_t n;
    uint64_t records = 0;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 2, &files, &n, &code)) {
        return code;
    }
    const char *out = files[n - 1];
    int r = coxi_data_input_parse(&config.input);
    r = r == 0 ? convert(&config, files, n - 1, out, &records) : r;
    coxi_data_input_fini(&config.input);
    if (r == 0 && config.json) {
        r = coxi_data_print(
            json_pack("{s:s, s:I}", "file", out, "records", (json_int_t)records));
    } else if (r == 0) {
        (void)printf("%s: %" PRIu64 " record%s\n", out, records, coxi_s(records));
    }
    return coxi_data_exit(&program, r);
}
