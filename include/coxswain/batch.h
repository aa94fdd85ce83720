/*
 * How records become numbers: what clients say about their data sets (dataset.h), and
 * what steps get of them (step.h). Include <coxswain/coxswain.h> or <coxswain/step.h>
 * instead of this file.
 */
#ifndef COXSWAIN_BATCH_H
#define COXSWAIN_BATCH_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the records of a file follow each other, and what each has. The numbers are in
 * messages and checkpoints. docs/data.md describes each format, byte for byte. */
enum cox_format {
    COX_RECORDIO = 1, /* PaddlePaddle's; chunks that are plain, gzip or Snappy */
    COX_TFRECORD = 2,
    COX_LIBSVM = 3, /* label id:value ... */
    COX_LIBFFM = 4, /* label field:id:value ... */
    COX_CRITEO = 5, /* label, 13 integers, 26 categories, with tabs between */
    COX_CSV = 6,    /* fields with a separator between, and quotes */
    COX_TEXT = 7,   /* lines of words */
};

/* What the records of a RecordIO or TFRecord file are. */
enum cox_content {
    COX_RAW = 0,     /* bytes: cox_batch.bytes */
    COX_EXAMPLE = 1, /* tf.Example messages, decoded as the columns say */
};

/* What a column of CSV, or a feature of a tf.Example, becomes. */
enum cox_column_kind {
    COX_COLUMN_LABEL = 1,  /* a number: cox_batch.labels */
    COX_COLUMN_WEIGHT = 2, /* a number: cox_batch.weights */
    COX_COLUMN_DENSE = 3,  /* `width` numbers: cox_batch.dense */
    COX_COLUMN_KEY = 4,    /* texts or integers, any number of them: a key each */
    COX_COLUMN_BYTES = 5,  /* text or bytes: cox_batch.bytes; at most one column */
};

/* A column. Its field (cox_batch.fields) is its place among the COX_COLUMN_KEY ones. */
struct cox_column {
    /* of the feature; in the header of CSV, or without a header the field's number, from
     * 0 */
    const char *name;
    uint32_t kind;  /* enum cox_column_kind */
    uint32_t width; /* COX_COLUMN_DENSE: numbers of a record; 0: 1 */
    float missing;  /* the number for a field that is empty or missing */
    uint32_t log;   /* 1: x becomes log(x + 1), and 0 if x is negative */
    /* COX_COLUMN_KEY: an integer stays as it is, if `integers` is 1; anything else, and
     * every key otherwise, becomes a hash of field and text, modulo `buckets` (0: of 64
     * bits) */
    uint32_t integers;
    uint64_t buckets;
};

/* The bytes of one record. */
struct cox_bytes {
    const uint8_t *data;
    size_t len;
};

/*
 * Records as they come to a step. Record r has the features begin[r] to begin[r + 1] -
 * 1: feature i has keys[i], values[i] and fields[i]. All arrays are the library's: they
 * stay until the next cox_step_batch of this step. NULL: the format or the columns give
 * none. Without values all are 1; without weights all are 1.
 */
struct cox_batch {
    size_t size;
    uint64_t n;             /* records */
    const float *labels;    /* [n] */
    const float *weights;   /* [n] */
    const uint64_t *begin;  /* [n + 1] */
    const uint64_t *keys;   /* [begin[n]] */
    const float *values;    /* [begin[n]] */
    const uint32_t *fields; /* [begin[n]] */
    const float *dense;     /* [n, n_dense], row-major */
    uint32_t n_dense;
    const struct cox_bytes *bytes; /* [n]; at any address */

    /* For messages: where the batch's first record is; for compressed files the offset
     * is in what they contain. */
    const char *file;
    uint64_t offset;
    uint64_t epoch; /* from 0 */
};
#define COX_BATCH_INIT COX_INIT(cox_batch)

#ifdef __cplusplus
}
#endif
#endif
