/* Elements of tensors as numbers, whatever their type. Any thread. */
#ifndef COXI_CLI_NUMBERS_H
#define COXI_CLI_NUMBERS_H

#include "checkpoint/safetensors.h"

/* Bytes of an element of the types that checkpoints have; 0: it is none. */
size_t coxi_number_size(const char *dtype);

/* The i-th of the elements at `data`; integers beyond 2^53 are rounded. */
double coxi_number(const char *dtype, const void *data, uint64_t i);

/* What is told of a tensor, over all elements. */
struct coxi_summary {
    uint64_t elements;
    double sum;
    double least;
    double most;
};

/* COX_ENOMEM. `tensor` is one of the file's. */
int coxi_summarize(const struct coxi_st_file *file, const struct coxi_st_tensor *tensor,
                   struct coxi_summary *ret);

#endif
