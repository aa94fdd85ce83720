/*
 * Columns: what the fields of a record become (struct cox_column), for formats whose
 * fields have names. A record is filled column by column, in the order of the decoding.
 *
 * Threads: any; a filling is one thread's.
 */
#ifndef COXI_DATA_COLUMNS_H
#define COXI_DATA_COLUMNS_H

#include "data/decoding.h"
#include "data/rows.h"

struct coxi_rows_shape coxi_columns_shape(const struct coxi_decoding *decoding);

/* The record rows->n at work. */
struct coxi_filling {
    struct coxi_rows *rows;
    float *dense;     /* the next dense numbers */
    uint64_t *keys;   /* the next key */
    uint32_t *fields; /* the next key's */
    uint32_t field;   /* of the next key column */
};

/* Begins a record of at most `features` keys. COX_ENOMEM. */
int coxi_filling_begin(struct coxi_filling *filling, struct coxi_rows *rows,
                       size_t features);

/* Where the numbers of a column that has numbers go. */
float *coxi_filling_numbers(struct coxi_filling *filling,
                            const struct cox_column *column);

/* A column that has numbers: how many a record has of it. */
uint32_t coxi_column_width(const struct cox_column *column);

/* The number that `x` becomes. */
float coxi_column_number(const struct cox_column *column, float x);

/* Adds a key of the column `filling->field`. */
void coxi_filling_text(struct coxi_filling *filling, const struct cox_column *column,
                       const uint8_t *text, size_t len);
void coxi_filling_integer(struct coxi_filling *filling, const struct cox_column *column,
                          int64_t n);

/* Ends the record, which begins at `offset` in the file. */
void coxi_filling_end(struct coxi_filling *filling, uint64_t offset);

#endif
