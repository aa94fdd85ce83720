/* coxswain data verify: every record and checksum of files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/data_command.h"
#include "cli/data_progress.h"
#include "cli/data_scan.h"
#include "common/error.h"
#include "data/index.h"
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
    .name = "coxswain data verify",
    .usage = "[options] FILE...",
    .summary =
        "Checks every record of files, and every checksum that they have. Prints each "
        "bad\nplace as FILE:OFFSET: REASON, and exits 1 if there is any. An index "
        "beside a "
        "file\n(coxswain data index) gives any format checksums; one that was made "
        "before the file\nchanged is a bad place, too. For example:\n"
        "  coxswain data verify part-*.recordio\n"
        "  coxswain data verify --json --format criteo day-0.gz",
    .prefix = "COX_DATA",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* What was found. */
struct findings {
    struct coxi_progress progress;
    bool json;
    uint64_t bad;                /* places, of all files */
    struct coxi_shown_name file; /* at hand */
    json_t *bad_places;          /* of it; NULL unless `json` */
};

static void on_bad(void *arg, uint64_t offset, const char *reason)
{
    struct findings *findings = arg;
    findings->bad++;
    if (findings->json) {
        (void)json_array_append_new(
            findings->bad_places,
            json_pack("{s:I, s:s}", "offset", (json_int_t)offset, "reason", reason));
        return;
    }
    coxi_progress_clear(&findings->progress);
    (void)printf("%s:%" PRIu64 ": %s\n", findings->file.text, offset, reason);
}

/* An error that ends the file's reading: its text has file and offset. */
static void on_end(struct findings *findings)
{
    findings->bad++;
    if (findings->json) {
        (void)json_array_append_new(findings->bad_places,
                                    json_pack("{s:s}", "reason", coxi_error_text()));
        return;
    }
    coxi_progress_clear(&findings->progress);
    (void)printf("%s\n", coxi_error_text());
}

static bool is_damage(int r)
{
    return r == COX_EFORMAT || r == COX_ECHECKSUM || r == COX_ELIMIT;
}

static void print_file(const struct findings *findings, uint64_t records,
                       uint64_t bytes, uint64_t bad)
{
    if (bad == 0) {
        (void)printf("%s: %" PRIu64 " record%s in %" PRIu64 " bytes, all whole\n",
                     findings->file.text, records, coxi_s(records), bytes);
    } else {
        (void)printf("%s: %" PRIu64 " bad place%s, %" PRIu64 " other record%s\n",
                     findings->file.text, bad, coxi_s(bad), records, coxi_s(records));
    }
}

static int check_sums(const struct coxi_source *source,
                      const struct coxi_file_index *index, uint8_t *room,
                      struct findings *findings)
{
    const struct coxi_file_index_head *head = coxi_file_index_head_of(index);
    struct coxi_file_index_entry entry;
    int r = coxi_file_index_entry_at(index, 0, &entry);
    for (uint64_t i = 1; r == 0 && i <= head->entries; i++) {
        struct coxi_file_index_entry next = {.offset = head->bytes};
        uint32_t sum = 0;
        r = i < head->entries ? coxi_file_index_entry_at(index, i, &next) : 0;
        if (r == 0) {
            r = coxi_data_sum_up(source, entry.offset, next.offset, room, &sum);
        }
        if (r == 0 && sum != entry.sum) {
            on_bad(
                findings, entry.offset,
                "the bytes from here to the index's next entry have another checksum "
                "than the index");
        }
        entry = next;
    }
    return r;
}

/* Checks the sums of the index, if there is one. */
static int verify_index(const struct coxi_source *source, struct findings *findings)
{
    struct coxi_file_index *index = NULL;
    bool stale = false;
    int r = coxi_file_index_open(source, &index, &stale);
    if (stale) {
        r = coxi_error(COX_EFORMAT,
                       "%s%s: the file has changed since this index was made, so its "
                       "checksums say nothing; make it again (coxswain data index)",
                       source->name, COXI_INDEX_END);
    }
    if (r != 0 || index == NULL) {
        return r;
    }
    uint8_t *room = malloc(COXI_PIECE_BYTES);
    r = room == NULL ? coxi_error_memory("an index")
                     : check_sums(source, index, room, findings);
    free(room);
    coxi_file_index_close(index);
    return r;
}

static int verify(const char *file, const struct config *config,
                  struct findings *findings, uint64_t *ret_records, uint64_t *ret_bytes)
{
    struct coxi_data_scan scan;
    uint64_t records = 0;
    int r = coxi_data_scan_open(file, &config->input, COXI_DATA_DECODED, &scan);
    scan.bad.leaves_out = true;
    scan.bad.on_left_out = on_bad;
    scan.bad.arg = findings;
    while (r == 0 && (r = coxi_data_scan_next(&scan, 1024)) == 0) {
        records += scan.rows.n;
        coxi_progress_show(&findings->progress,
                           findings->progress.done + coxi_data_scan_at(&scan));
    }
    if (is_damage(r)) {
        on_end(findings);
        r = COX_EEOF;
    }
    if (r == COX_EEOF) {
        r = verify_index(&scan.source, findings);
        if (is_damage(r)) {
            on_end(findings);
        }
        r = r == 0 || is_damage(r) ? COX_EEOF : r;
    }
    *ret_records = records;
    *ret_bytes = scan.bytes;
    findings->progress.done += scan.bytes;
    coxi_data_scan_close(&scan);
    return r == COX_EEOF ? 0 : r;
}

static int verify_files(const struct config *config, char *const *files, size_t n,
                        uint64_t *ret_bad)
{
    struct findings findings = {.json = config->json};
    json_t *list = json_array();
    int r = 0;
    coxi_progress_begin(&findings.progress, "verifying", coxi_progress_bytes(files, n));
    for (size_t i = 0; r == 0 && i < n; i++) {
        uint64_t before = findings.bad;
        uint64_t records = 0;
        uint64_t bytes = 0;
        findings.file = coxi_name_shown(files[i]);
        findings.bad_places = json_array();
        r = verify(files[i], config, &findings, &records, &bytes);
        coxi_progress_clear(&findings.progress);
        if (r == 0 && !config->json) {
            print_file(&findings, records, bytes, findings.bad - before);
        }
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:o}", "file", findings.file.text,
                            "records", (json_int_t)records, "bytes", (json_int_t)bytes,
                            "bad", findings.bad_places));
    }
    if (r == 0 && config->json) {
        (void)coxi_data_print(json_pack("{s:O}", "files", list));
    }
    json_decref(list);
    *ret_bad = findings.bad;
    return r;
}

int coxi_data_verify(int argc, char **argv)
{
    struct config config = {0};
    char **files;
    size_t n;
    uint64_t bad = 0;
    int code;
    if (!coxi_data_begin(&program, argc, argv, &config, 1, &files, &n, &code)) {
        return code;
    }
    int r = coxi_data_input_parse(&config.input);
    r = r == 0 ? verify_files(&config, files, n, &bad) : r;
    coxi_data_input_fini(&config.input);
    if (r == 0 && bad > 0) {
        r = coxi_error(COX_EFORMAT, "%" PRIu64 " bad place%s", bad, coxi_s(bad));
    }
    return coxi_data_exit(&program, r);
}
