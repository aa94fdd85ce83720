/*
 * Rows: records as arrays (struct cox_batch), while they are made. The arrays keep their
 * memory from batch to batch. A parser reserves for a whole record or line, then writes
 * without checks, and ends the record with coxi_rows_commit; what it wrote before a
 * commit does not count.
 *
 * Threads: one at a time; the blocks are those of one reader's pool.
 */
#ifndef COXI_DATA_ROWS_H
#define COXI_DATA_ROWS_H

#include <stdbool.h>

#include "coxswain/batch.h"
#include "data/block.h"

/* The arrays that a format fills. */
enum {
    COXI_HAS_LABELS = 1,
    COXI_HAS_WEIGHTS = 2,
    COXI_HAS_FEATURES = 4, /* begin and keys */
    COXI_HAS_VALUES = 8,
    COXI_HAS_FIELDS = 16,
    COXI_HAS_BYTES = 32,
};

struct coxi_rows_shape {
    unsigned has;
    uint32_t n_dense;
};

struct coxi_rows {
    size_t n;          /* whole records */
    size_t n_features; /* of whole records */
    size_t n_bytes;    /* that `bytes` point to */
    size_t capacity;
    size_t feature_capacity;
    struct coxi_rows_shape shape;
    uint64_t *offsets; /* where each record begins, for messages */
    float *labels;
    float *weights;
    uint64_t *begin; /* [capacity + 1]; begin[0] is 0 */
    uint64_t *keys;
    float *values;
    uint32_t *fields;
    float *dense;
    struct cox_bytes *bytes;

    /* The blocks that `bytes` point into. */
    struct coxi_block_pool *pool;
    struct coxi_block **blocks;
    size_t n_blocks;
    size_t block_capacity;
    struct coxi_block *copies; /* has copied bytes; also among `blocks` */
    size_t copied;
};

/* Borrows the pool. Takes no memory yet. */
void coxi_rows_init(struct coxi_rows *rows, const struct coxi_rows_shape *shape,
                    struct coxi_block_pool *pool);
void coxi_rows_fini(struct coxi_rows *rows);

/* Removes all records, and releases their blocks. */
void coxi_rows_clear(struct coxi_rows *rows);

int coxi_rows_grow(struct coxi_rows *rows, size_t records, size_t features);

/* Makes room for so many more records and features. COX_ENOMEM. */
static inline int coxi_rows_reserve(struct coxi_rows *rows, size_t records,
                                    size_t features)
{
    return rows->n + records <= rows->capacity &&
                   rows->n_features + features <= rows->feature_capacity
               ? 0
               : coxi_rows_grow(rows, records, features);
}

/* Ends the record `rows->n`, which begins at `offset` and has `features` features. */
static inline void coxi_rows_commit(struct coxi_rows *rows, uint64_t offset,
                                    size_t features)
{
    rows->offsets[rows->n] = offset;
    rows->n_features += features;
    if (rows->bytes != NULL) {
        rows->n_bytes += rows->bytes[rows->n].len;
    }
    rows->n++;
    if (rows->begin != NULL) {
        rows->begin[rows->n] = rows->n_features;
    }
}

/* Keeps a block until the rows are cleared. COX_ENOMEM. */
int coxi_rows_hold(struct coxi_rows *rows, struct coxi_block *block);

/* Memory for `len` bytes of a record, which stays until the rows are cleared. NULL:
 * there is none. */
uint8_t *coxi_rows_copy_room(struct coxi_rows *rows, size_t len);

/* About how many bytes the records take. */
size_t coxi_rows_bytes(const struct coxi_rows *rows);

/* Appends the records with these numbers, in this order. Both have the same shape and
 * pool. COX_ENOMEM. */
int coxi_rows_gather(struct coxi_rows *to, const struct coxi_rows *from,
                     const uint32_t *numbers, size_t n);

/* The rows as a batch, which borrows their arrays; file and epoch stay as they are. */
void coxi_rows_batch(const struct coxi_rows *rows, struct cox_batch *ret);

#endif
