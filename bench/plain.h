/*
 * The baseline of a table: rows of PLAIN_DIM floats, each with as much state, which an
 * open-addressing hash finds by the table's hash of keys. No locks, no growth, no
 * prefetching. Single-threaded.
 */
#ifndef COXI_BENCH_PLAIN_H
#define COXI_BENCH_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "common/rule.h"

enum { PLAIN_DIM = 16 };

struct plain {
    struct plain_entry *index;
    uint64_t mask;
    struct plain_row *rows;
    size_t n_rows;
};

/* Makes room for `rows` rows. */
void plain_init(struct plain *plain, uint64_t rows);
void plain_fini(struct plain *plain);

/* Adds the row of a new key; its number is the count of rows before. */
void plain_put(struct plain *plain, uint64_t key);

/* Copies, or updates, n rows: those of `keys`, or the rows with these numbers if
 * `numbers` is not NULL. */
void plain_pull(const struct plain *plain, const uint64_t *keys,
                const uint32_t *numbers, size_t n, float *ret);
void plain_push(const struct plain *plain, const struct coxi_optimizer *optimizer,
                const uint64_t *keys, const uint32_t *numbers, size_t n,
                const float *gradients);

#endif
