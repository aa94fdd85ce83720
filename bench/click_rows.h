/* Rows for the steps of case `train` (click_steps.c): reading libsvm text, and cutting a
 * file into ranges for the steps. */
#ifndef BENCH_CLICK_ROWS_H
#define BENCH_CLICK_ROWS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Rows in compressed form: row r has label labels[r] (0 or 1) and the features
 * i = begin[r] .. begin[r + 1] - 1 with slots[i] and values[i]. A slot is the place of
 * a feature id in `keys`, where each id that occurs stands once.
 */
struct rows {
    size_t n_rows;
    float *labels;
    size_t *begin;
    uint32_t *slots;
    float *values;
    size_t n_keys;
    uint64_t *keys;
};

/* Why something failed: "FILE:LINE: reason". */
struct data_error {
    char text[512];
};

/*
 * Parses the `len` bytes of libsvm text at `offset` of `path` (len 0: to its end),
 * whose first line is number `line`: "label id:value id:value ...", label -1, 0 or 1,
 * ids in any order, # begins a comment. 0, or -1 with *error filled. Free with
 * rows_free.
 */
int rows_read(const char *path, int64_t offset, int64_t len, int64_t line,
              struct rows *ret, struct data_error *error);
void rows_free(struct rows *rows);

/* A part of a file that begins with a line and ends with one. */
struct range {
    int64_t offset;
    int64_t len;
    int64_t line; /* number of its first line, from 1 */
};

/* Cuts a file into ranges of `lines` lines. 0 or -1; free(*ret). An empty file is an
 * error. */
int ranges_of(const char *path, int64_t lines, struct range **ret, size_t *ret_n,
              struct data_error *error);

#endif
