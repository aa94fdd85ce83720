/*
 * The data sets of a manifest: which files each has, and how far it is. Members of an
 * entry of `data_sets` in manifest.json:
 *
 *   name, epochs (0: for ever), tasks (of an epoch), files (how many)
 *   spec      the packed spec, as hex digits (coordinator/datasets/spec.h)
 *   marks     a text for each group of files: "NAMES BYTES CHANGED CRC", a hash, two
 *             decimal numbers and a hash (coordinator/datasets/marks.h)
 *   next      position of the first task that no covered closure has
 *   again     tasks below it that are to be given out again: "FIRST-LAST FAILURES"
 *   done, failed, skipped, retries, records, bad_records, bytes    counts
 *   code, failure   of the first task that failed or was skipped, or bad record; 0,
 *             "": none
 *
 * Any thread.
 */
#ifndef COXI_CHECKPOINT_MANIFEST_DATASETS_H
#define COXI_CHECKPOINT_MANIFEST_DATASETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum { COXI_DATASETS_MAX = 4096 };

/* Consecutive tasks with an equal number of failures. */
struct coxi_manifest_range {
    uint64_t first;
    uint64_t last;
    uint32_t failures;
};

struct coxi_manifest_ranges {
    struct coxi_manifest_range *all;
    size_t n;
    size_t capacity;
};

/* Adds a position above all that were added. COX_ENOMEM. */
int coxi_manifest_ranges_add(struct coxi_manifest_ranges *ranges, uint64_t position,
                             uint32_t failures);
void coxi_manifest_ranges_fini(struct coxi_manifest_ranges *ranges);

/* Some files that follow each other; most often one. */
struct coxi_manifest_mark {
    uint64_t names;      /* hash of their names */
    uint64_t bytes;      /* the sum of their sizes */
    uint64_t changed_ns; /* of one file: its time; else a hash of their times */
    uint32_t head_crc;   /* the same of their heads */
};

struct coxi_manifest_dataset {
    char *name;
    uint64_t epochs; /* UINT64_MAX: for ever; then 0 in the file */
    uint64_t n_tasks;
    uint64_t n_files;
    uint8_t *spec;
    size_t spec_len;
    struct coxi_manifest_mark *marks;
    size_t n_marks;
    uint64_t next;
    struct coxi_manifest_ranges again;
    uint64_t done;
    uint64_t failed;
    uint64_t skipped;
    uint64_t retries;
    uint64_t records;
    uint64_t bad_records;
    uint64_t bytes;
    int code;
    char *failure; /* NULL: none */
};

struct coxi_manifest_datasets {
    struct coxi_manifest_dataset *all;
    size_t n;
};

/* An array; pieces are missing in it if there was no memory (manifest_write.c). */
struct json_t *
coxi_manifest_datasets_json(const struct coxi_manifest_datasets *datasets);

/* Reads the array; NULL: there is none, because the version was older. False: it is
 * malformed, or there was no memory. The file is not trusted. */
bool coxi_manifest_datasets_read(const struct json_t *array,
                                 struct coxi_manifest_datasets *ret);

/* Frees everything in it. */
void coxi_manifest_datasets_fini(struct coxi_manifest_datasets *datasets);

#endif
