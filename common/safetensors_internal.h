/* What safetensors.c and overlay.c share. Not for others. */
#ifndef COXI_COMMON_SAFETENSORS_INTERNAL_H
#define COXI_COMMON_SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "common/safetensors.h"

struct coxi_st_file {
    uint8_t *map; /* or NULL */
    size_t len;
    json_t *header; /* owns the tensors' names and the metadata */
    struct coxi_st_tensor *tensors;
    size_t n_tensors;
    struct coxi_st_file **under; /* files that it is put together from, which it owns */
    size_t n_under;
    void **memory; /* that tensors lie in which no file has, for free() */
    size_t n_memory;
};

/* Bytes of an element of the types that we write; 0 of those that others may. */
size_t coxi_st_dtype_size(const char *dtype);

#endif
