/* Elements of tensors of any type as numbers. Any thread. */
#ifndef COXI_CLI_NUMBERS_H
#define COXI_CLI_NUMBERS_H

#include "checkpoint/safetensors.h"

/* Bytes of an element of a type that checkpoints have; 0: there is no such type. */
size_t coxi_number_size(const char *dtype);

/* The i-th element at `data`; integers beyond 2^53 are rounded. */
double coxi_number(const char *dtype, const void *data, uint64_t i);

/* A summary of all elements of a tensor. */
struct coxi_summary {
    uint64_t elements;
    double sum;
    double least;
    double most;
};

/* Summarizes `tensor`, which belongs to the file. COX_ENOMEM. */
int coxi_summarize(const struct coxi_st_file *file, const struct coxi_st_tensor *tensor,
                   struct coxi_summary *ret);

#endif
