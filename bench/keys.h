/* Keys as sparse models ask for them: `n` different ones of `rows` at a time, all
 * equally likely or by Zipf's law. */
#ifndef COXI_BENCH_KEYS_H
#define COXI_BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct bench_keys {
    uint64_t rows;
    double exponent; /* 0: all equally likely */
    uint64_t rng;
    uint32_t *drawn; /* by row: the last batch that had it */
    uint32_t batch;
    double h_first, h_last, shift; /* for draws by Zipf's law */
};

/* `exponent`: 0, or of Zipf's law, above 1. */
void bench_keys_init(struct bench_keys *keys, uint64_t rows, double exponent,
                     uint64_t seed);
void bench_keys_fini(struct bench_keys *keys);

/* The key of the i-th row, from 0; by Zipf's law, lower rows are likelier. */
static inline uint64_t bench_key(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

/* Draws the numbers of n different rows. */
void bench_keys_draw(struct bench_keys *keys, size_t n, uint32_t *ret_rows);

#endif
