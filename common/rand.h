/* Random numbers: fast seeded ones (splitmix64) and unpredictable ids. */
#ifndef COXI_COMMON_RAND_H
#define COXI_COMMON_RAND_H

#include <stdint.h>

/*
 * The next number of the splitmix64 sequence of *state (Steele, Lea, Flood: Fast
 * splittable pseudorandom number generators, OOPSLA 2014). One thread at a time for a
 * state.
 */
static inline uint64_t coxi_rand(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1) with 53 random bits. */
static inline double coxi_rand_unit(uint64_t *state)
{
    return (double)(coxi_rand(state) >> 11) * 0x1p-53;
}

/* A random non-zero id from the kernel. Any thread. */
uint64_t coxi_random_id(void);

#endif
