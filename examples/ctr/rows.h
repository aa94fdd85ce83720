/*
 * The rows that the evaluator scores. Workers get theirs from a data set; the evaluator
 * is no worker, so it reads its file itself, into what workers get: a cox_batch.
 */
#ifndef CTR_ROWS_H
#define CTR_ROWS_H

#include <stddef.h>

#include <coxswain/batch.h>

struct rows {
    struct cox_batch batch; /* of the arrays below; labels are 0 or 1 */
    float *labels;
    uint64_t *begin;
    uint64_t *keys;
    float *values;
    size_t n_features;
    size_t rows_capacity;
    size_t features_capacity;
};

/* Reads all of a libsvm file: "label id:value id:value ...", label -1, 0 or 1, ids in any
 * order, # begins a comment. 0, or -1 after it has printed "FILE:LINE: reason". Free with
 * rows_free, in both cases. */
int rows_read(const char *path, struct rows *ret);
void rows_free(struct rows *rows);

#endif
