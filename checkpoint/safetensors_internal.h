/* What the files of checkpoint/safetensors and overlay.c share. Not for others. */
#ifndef COXI_CHECKPOINT_SAFETENSORS_INTERNAL_H
#define COXI_CHECKPOINT_SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "checkpoint/safetensors.h"

/* A table that is put together from the files under one. */
struct coxi_st_merged {
    uint64_t n_rows;
    uint64_t **kept; /* for each file a bit for each of its rows: it counts */
};

struct coxi_st_file {
    uint8_t *map; /* or NULL */
    size_t len;
    json_t *header; /* owns the tensors' names and the metadata */
    struct coxi_st_tensor *tensors;
    size_t n_tensors;
    /* For each tensor, with `under`: NULL where it lies in one file or in memory. */
    const struct coxi_st_merged **merged;
    struct coxi_st_file **under; /* files that it is put together from, which it owns */
    size_t n_under;
    void **memory; /* of tensors that no file has, and of `merged`; for free() */
    size_t n_memory;
};

/* Bytes of a row, or 0: of a type that we do not know. */
size_t coxi_st_row_bytes(const struct coxi_st_tensor *tensor);

/* Bytes of an element of the types that we write; 0 of those that others may. */
size_t coxi_st_dtype_size(const char *dtype);

#endif
