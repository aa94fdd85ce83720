/*
 * Files of records: read whole, and cut in two. A file that is read without an error must
 * have the same records when it is cut, or its tasks are an error.
 */
#ifndef COXI_TESTS_FUZZ_DATA_H
#define COXI_TESTS_FUZZ_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/decoding.h"

/* The first bytes of an input, before the file's. */
struct fuzz_data_head {
    uint8_t format;  /* for the fuzzer */
    uint8_t options; /* FUZZ_... */
    uint16_t cut;    /* offset */
};

enum { FUZZ_GZIP = 1, FUZZ_SKIP = 2, FUZZ_MIX = 4, FUZZ_REPAIR = 8 };

/* `splits`: a cut never changes whether the file is read. */
void fuzz_data_read(const struct fuzz_data_head *head,
                    const struct coxi_decoding *decoding, bool splits,
                    const uint8_t *data, size_t len);

/* A fuzzer whose inputs are the file behind the head. */
int fuzz_data_input(const struct coxi_decoding *decoding, bool splits,
                    const uint8_t *data, size_t size);

#endif
