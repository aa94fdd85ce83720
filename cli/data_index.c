/* coxswain data index: writes FILE.coxi beside files (data/index.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/data_command.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "common/file.h"
#include "data/index.h"
#include "data/name.h"

struct config {
    struct coxi_data_input input;
    int64_t every;
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "every",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, every),
     .min = 1,
     .max = UINT32_MAX,
     .fallback = "64",
     .help = "an entry for so many records"},
    COXI_DATA_JSON(struct config),
    COXI_DATA_INPUT(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain data index",
    .usage = "[options] FILE...",
    .summary =
        "Reads files, and writes beside each FILE the index FILE.coxi: where records "
        "begin,\nand checksums of the bytes between. RecordIO and TFRecord files whose "
        "records contain\nsuch files need one to be cut into tasks. An index belongs "
        "to the file as it is;\nmake it again when the file has changed. For example:\n"
        "  coxswain data index part-*.tfrecord",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

struct entries {
    struct coxi_buffer buffer; /* struct coxi_file_index_entry */
    uint64_t n;
};

static int add_entry(struct entries *entries, uint64_t offset, uint64_t record)
{
    const struct coxi_file_index_entry entry = {.offset = offset, .record = record};
    entries->n++;
    return coxi_buffer_append_raw(&entries->buffer, &entry, sizeof(entry));
}

/* Finds the entries; one record at a time, so that each record's frame is known. */
static int find_entries(struct coxi_data_scan *scan, uint64_t every,
                        struct coxi_progress *progress, struct entries *entries,
                        uint64_t *ret_records)
{
    uint64_t records = 0;
    uint64_t since = 0; /* the record of the last entry */
    uint64_t frame = 0;
    int r = add_entry(entries, 0, 0);
    while (r == 0 && (r = coxi_data_scan_next(scan, 1)) == 0) {
        bool lines = coxi_data_is_lines(scan->decoding.format);
        uint64_t at = lines ? scan->rows.offsets[0] : scan->parser.frame;
        if (at != frame && records - since >= every) {
            r = add_entry(entries, at, records);
            since = records;
        }
        frame = at;
        records++;
        if (records % 1024 == 0) {
            coxi_progress_show(progress, progress->done + coxi_data_scan_at(scan));
        }
    }
    *ret_records = records;
    return r == COX_EEOF ? 0 : r;
}

static int sum_entries(const struct coxi_source *source, const struct entries *entries,
                       uint64_t bytes)
{
    struct coxi_file_index_entry *all = (void *)entries->buffer.data;
    uint8_t *room = malloc(COXI_PIECE_BYTES);
    int r = room == NULL ? coxi_error_memory("an index") : 0;
    for (uint64_t i = 0; r == 0 && i < entries->n; i++) {
        uint64_t end = i + 1 < entries->n ? all[i + 1].offset : bytes;
        r = coxi_data_sum_up(source, all[i].offset, end, room, &all[i].sum);
    }
    free(room);
    return r;
}

static int write_index(const struct coxi_data_scan *scan, uint64_t every,
                       uint64_t records, const struct coxi_file_mark *mark,
                       const struct entries *entries)
{
    struct coxi_buffer bytes = {0};
    char path[PATH_MAX];
    struct coxi_file_index_head head = {.magic = COXI_INDEX_MAGIC_BYTES,
                                        .format = scan->decoding.format,
                                        .every = (uint32_t)every,
                                        .bytes = mark->bytes,
                                        .changed_ns = mark->changed_ns,
                                        .head_crc = mark->head_crc,
                                        .records = records,
                                        .entries = entries->n};
    int r = coxi_file_index_pack(&head, (void *)entries->buffer.data, &bytes);
    r = r == 0 ? coxi_path(path, "%s%s", scan->source.name, COXI_INDEX_END) : r;
    r = r == 0 ? coxi_file_write(path, bytes.data, bytes.len) : r;
    coxi_buffer_fini(&bytes);
    return r;
}

static int make(struct coxi_data_scan *scan, const struct config *config,
                struct coxi_progress *progress, uint64_t *ret_records,
                uint64_t *ret_entries)
{
    struct entries entries = {0};
    struct coxi_file_mark mark;
    if (coxi_name_inflates(scan->source.name)) {
        return coxi_error(COX_EINVAL,
                          "%s is compressed as a whole, so it is one task and needs no "
                          "index",
                          scan->source.name);
    }
    uint64_t every = (uint64_t)config->every;
    int r = coxi_source_mark(&scan->source, &mark);
    r = r == 0 ? find_entries(scan, every, progress, &entries, ret_records) : r;
    r = r == 0 ? sum_entries(&scan->source, &entries, mark.bytes) : r;
    r = r == 0 ? coxi_source_check(&scan->source, &mark) : r;
    r = r == 0 ? write_index(scan, every, *ret_records, &mark, &entries) : r;
    *ret_entries = entries.n;
    coxi_buffer_fini(&entries.buffer);
    return r;
}

static int make_index(const char *file, const struct config *config,
                      struct coxi_progress *progress)
{
    struct coxi_data_scan scan;
    uint64_t records = 0;
    uint64_t entries = 0;
    if (coxi_name_has_scheme(file)) {
        return coxi_error(COX_EINVAL,
                          "%s is an address: an index is written beside a file",
                          coxi_name_shown(file).text);
    }
    int r = coxi_data_scan_open(file, &config->input, COXI_DATA_RAW, &scan);
    r = r == 0 ? make(&scan, config, progress, &records, &entries) : r;
    progress->done += scan.bytes;
    coxi_data_scan_close(&scan);
    coxi_progress_clear(progress);
    if (r != 0) {
        return r;
    }
    if (config->json) {
        return coxi_data_print(
            json_pack("{s:s, s:I, s:I}", "file", coxi_name_shown(file).text, "records",
                      (json_int_t)records, "entries", (json_int_t)entries));
    }
    (void)printf("%s%s: %" PRIu64 " record%s, %" PRIu64 " %s\n", file, COXI_INDEX_END,
                 records, coxi_s(records), entries, entries == 1 ? "entry" : "entries");
    return 0;
}

int coxi_data_index(int argc, char **argv)
{
    struct config config = {0};
    struct coxi_progress progress;
    char **files;
    size_t n;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 1, &files, &n, &code)) {
        return code;
    }
    coxi_progress_begin(&progress, "indexing", coxi_progress_bytes(files, n));
    int r = coxi_data_input_parse(&config.input);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = make_index(files[i], &config, &progress);
    }
    coxi_data_input_fini(&config.input);
    return coxi_data_exit(&program, r);
}
