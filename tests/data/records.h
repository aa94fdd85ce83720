/* Records as texts, as a reader hands them out. */
#ifndef COXI_TESTS_DATA_RECORDS_H
#define COXI_TESTS_DATA_RECORDS_H

#include "data/reader.h"
#include "tests/data/memory.h"

struct records {
    char **all;
    size_t n;
    int code; /* of the last reader: COX_EEOF, or the error */
    char error[512];
    struct coxi_reader_counts counts; /* of the last reader */
};

/* Reads a task of the file at task->file, and adds its records. */
void records_read(const struct coxi_task *task, struct records *to);

/* The same for a file that is cut at these offsets, one task after the other; stops at
 * the first error. */
void records_read_cut(const struct coxi_task *task, const uint64_t *cuts, size_t n,
                      struct records *to);
void records_free(struct records *records);

/* Writes the file at task->file. Fails unless it has `n` records, also if it is cut in two,
 * wherever that is. */
void records_assert_cuts(const struct coxi_task *task, const void *bytes, size_t len,
                         size_t n);

/* Reads a task of a file in memory, with the name task->file. */
void records_read_memory(const struct coxi_task *task, const void *bytes, size_t len,
                         struct records *to);

void records_read_file(const struct coxi_task *task, struct memory_file *file,
                       struct records *to);

/* Reads `rounds` files, which are these bytes with random changes, with bad records left
 * out in every other round. Fails unless all end well or with an error that names
 * task->file. */
void records_mutate(const struct coxi_task *task, const void *bytes, size_t len,
                    int rounds);

/* Up to `most` random offsets in and just behind a file of `len` bytes, by size; returns
 * how many. */
size_t records_cuts(uint64_t *rng, size_t len, uint64_t *cuts, size_t most);

/* A task with the whole file. */
struct coxi_task records_task(const char *file, uint32_t format);

/* Fails unless these are the records, and the reader ended well. */
void records_assert(const struct records *records, const char *const *expected,
                    size_t n);
void records_assert_same(const struct records *a, const struct records *b);

#endif
