/* See clicks.h. */
#include "clicks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { FIELDS = 20, KINDS = 2 };

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_unit(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* An id of 1 .. n, about as often as 1 / id: few common ones, a long tail. */
static uint64_t next_id(uint64_t *state, uint64_t n)
{
    return (uint64_t)pow((double)n, next_unit(state));
}

/* The planted weight of a feature: a number that depends on seed and id alone. */
static double weight_of(uint64_t seed, uint64_t id)
{
    uint64_t state = seed ^ (id * 0x9e3779b97f4a7c15u);
    return (next_unit(&state) + next_unit(&state) - 1.0) * 1.6;
}

/* An id is of one of two kinds. A pair of ids of one kind makes a click likelier, a pair
 * of different kinds makes it less likely. So no id has a weight by its pairs alone. */
static double pair_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t state_a = ~seed ^ (a * 0x9e3779b97f4a7c15u);
    uint64_t state_b = ~seed ^ (b * 0x9e3779b97f4a7c15u);
    return next_random(&state_a) % KINDS == next_random(&state_b) % KINDS ? 1 : -1;
}

int clicks_generate(const char *path, const struct clicks *log, int part)
{
    FILE *file = fopen(path, "we");
    uint64_t state = log->seed * 2 + (uint64_t)part;
    if (file == NULL) {
        return -1;
    }
    for (size_t r = 0; r < log->n_rows; r++) {
        uint64_t ids[FIELDS];
        double score = -1.2;
        for (uint64_t f = 0; f < FIELDS; f++) {
            ids[f] = f * log->ids + next_id(&state, log->ids);
            score += weight_of(log->seed, ids[f]);
            if (f % 2 == 1) {
                score += log->pairs * pair_of(log->seed, ids[f - 1], ids[f]);
            }
        }
        (void)fputs(next_unit(&state) < 1.0 / (1.0 + exp(-score)) ? "1" : "0", file);
        for (int f = 0; f < FIELDS; f++) {
            (void)fprintf(file, " %llu:1", (unsigned long long)ids[f]);
        }
        (void)fputc('\n', file);
    }
    bool bad = ferror(file) != 0;
    return fclose(file) != 0 || bad ? -1 : 0;
}
