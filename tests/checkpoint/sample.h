/*
 * Checkpoints for tests, written as ps and a client would write them, but without
 * either.
 *
 *   w     F32 [7, 2] in two shards (with one ps: one), with adagrad and step
 *   n     I64 [3] on the last ps, without an optimizer
 *   half  BF16 [4], on ps 0
 *   t     a table, dim 3, with adagrad and step
 */
#ifndef COXI_TESTS_COMMON_SAMPLE_H
#define COXI_TESTS_COMMON_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLE_W = 14, SAMPLE_N = 3, SAMPLE_HALF = 4, SAMPLE_DIM = 3 };

struct sample {
    uint64_t run;
    uint64_t number;
    uint32_t n_ps; /* 1 to 4 */
    uint64_t n_rows;
    float plus; /* added to every value of w, and of the rows of t */
    bool final;
    bool without_half; /* leaves out variable `half` */
    bool as_written;   /* shards say `shards_number`, with right checksums */
    uint64_t shards_number;
    uint64_t base; /* builds on this one, which has n and `half`; 0: builds on none */
    uint64_t rows_from; /* the first row of t that it has */
    /* with `base`: rows of t that were dropped, from the first on */
    uint64_t n_removed;
};

/* The i-th element of w; of n; the key of the i-th row of t; the row's values. */
float sample_w(const struct sample *sample, uint64_t i);
int64_t sample_n(uint64_t i);
uint64_t sample_key(uint64_t row);
float sample_value(const struct sample *sample, uint64_t row, uint64_t column);

/* Writes <dir>/ckpt-<number> and LATEST. `dir` may be s3://... */
void sample_write(const char *dir, const struct sample *sample);

/* Asserts which checkpoints a directory has, like "1 2 3.tmp"; ".tmp": unfinished. */
void sample_assert_there(const char *dir, const char *expected);

#endif
