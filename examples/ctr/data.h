/* Rows for the click model: reading libsvm text, cutting a file into ranges for the
 * steps, and generating a click log. Plain C, no Coxswain in here. */
#ifndef CTR_DATA_H
#define CTR_DATA_H

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

/* Writes a click log of n_rows rows in libsvm form. The labels follow a planted model
 * (weights drawn by `seed`); the ids follow a power law, as in real logs. `part` varies
 * the rows and not the model: 0 to train on, 1 to test on. 0 or -1. */
int clicks_generate(const char *path, size_t n_rows, uint64_t seed, int part,
                    struct data_error *error);

#endif
