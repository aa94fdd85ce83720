/* What the fuzzers share. Each is a program of its own: LLVMFuzzerTestOneInput in
 * fuzz_<name>.c, built with libFuzzer (scripts/fuzz). */
#ifndef COXI_TESTS_FUZZ_FUZZ_H
#define COXI_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the input apart; after its end everything is 0. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint64_t fuzz_number(struct fuzz_input *input, size_t bytes);     /* at most 8 */
uint64_t fuzz_below(struct fuzz_input *input, uint64_t n);        /* of one byte */
const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t *len); /* at most *len */

/* A number that is mostly small, and sometimes near an edge; and one for rows, which is
 * mostly below 240. */
uint64_t fuzz_any(struct fuzz_input *input);
uint64_t fuzz_rows(struct fuzz_input *input);

/* How much a closure counts in its round: one of a few numbers, some of them bad. */
float fuzz_weight(uint64_t n);

/* A directory in memory, made once and removed at exit. */
const char *fuzz_dir(void);

/* Writes a file in that directory; the path is valid until the next call with the same
 * `name`. */
const char *fuzz_file(const char *name, const void *bytes, size_t len);

/* Ends the program with a message: something that must hold does not. */
__attribute__((noreturn)) void fuzz_fail(const char *what);

#endif
