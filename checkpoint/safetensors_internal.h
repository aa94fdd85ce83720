/* Shared by the files of checkpoint/safetensors and overlay.c only. */
#ifndef COXI_CHECKPOINT_SAFETENSORS_INTERNAL_H
#define COXI_CHECKPOINT_SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "checkpoint/safetensors.h"

/* Says which rows of which file make up a table of an overlay. */
struct coxi_st_merged {
    uint64_t n_rows;
    /* for each file, a bit for each row: set if the row belongs to the table */
    uint64_t **kept;
};

struct coxi_st_file {
    struct coxi_file_source source; /* without `read`: an overlay */
    bool owns_source;
    char *path;
    size_t len;
    json_t *header; /* owns the tensors' names and the metadata */
    struct coxi_st_tensor *tensors;
    size_t n_tensors;
    /* Of an overlay, for each tensor: which rows of which file count. An entry is NULL
     * if the tensor lies in one file or in memory. */
    const struct coxi_st_merged **merged;
    /* the files that the overlay puts together, and owns; NULL: this is no overlay */
    struct coxi_st_file **under;
    size_t n_under;
    void **memory; /* of tensors that no file has, and of `merged`; for free() */
    size_t n_memory;
};

/* A file without anything; NULL: no memory. */
struct coxi_st_file *coxi_st_file_new(void);

/* Bytes of a row; 0: we do not know the type. */
size_t coxi_st_row_bytes(const struct coxi_st_tensor *tensor);

/* Copies bytes of the file into `to`. Errors of coxi_st_read. */
int coxi_st_read_file(const struct coxi_st_file *file, uint64_t at, void *to,
                      size_t len);

#endif
