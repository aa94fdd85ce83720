/* See planted.h. */
#include "cli/planted.h"

#include <math.h>

#include "common/hash.h"
#include "common/rand.h"

#define PI 3.14159265358979323846

static uint64_t state_of(uint64_t seed, uint64_t id, uint64_t k)
{
    return coxi_hash_key(coxi_hash_key(seed + 0x9e3779b97f4a7c15u * (k + 1)) ^ id);
}

double coxi_planted_unit(uint64_t seed, uint64_t id, uint64_t k)
{
    uint64_t state = state_of(seed, id, k);
    return coxi_rand_unit(&state);
}

double coxi_planted_draw_normal(uint64_t *rng)
{
    double radius = sqrt(-2 * log(1 - coxi_rand_unit(rng))); /* Box and Muller */
    return radius * cos(2 * PI * coxi_rand_unit(rng));
}

double coxi_planted_normal(uint64_t seed, uint64_t id, uint64_t k)
{
    uint64_t state = state_of(seed, id, k);
    return coxi_planted_draw_normal(&state);
}

uint64_t coxi_planted_draw_zipf(uint64_t *rng, uint64_t n)
{
    uint64_t i = (uint64_t)pow((double)n + 1, coxi_rand_unit(rng));
    return i > n ? n - 1 : i - 1;
}
