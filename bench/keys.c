/*
 * See keys.h. Zipf's law by rejection-inversion: Hoermann, Derflinger:
 * Rejection-inversion to generate variates from monotone discrete distributions, 1996.
 */
#include "bench/keys.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "common/rand.h"

static double power(const struct bench_keys *keys, double x)
{
    return exp(-keys->exponent * log(x));
}

/* The integral of x^-exponent, and its inverse. */
static double area(const struct bench_keys *keys, double x)
{
    return exp((1 - keys->exponent) * log(x)) / (1 - keys->exponent);
}

static double area_inverse(const struct bench_keys *keys, double y)
{
    return exp(log((1 - keys->exponent) * y) / (1 - keys->exponent));
}

void bench_keys_init(struct bench_keys *keys, uint64_t rows, double exponent,
                     uint64_t seed)
{
    *keys = (struct bench_keys){.rows = rows, .exponent = exponent, .rng = seed};
    keys->drawn = calloc(rows, sizeof(*keys->drawn));
    if (keys->drawn == NULL) {
        bench_die("no memory for keys");
    }
    if (exponent > 0) {
        keys->h_first = area(keys, 1.5) - 1;
        keys->h_last = area(keys, (double)rows + 0.5);
        keys->shift = 2 - area_inverse(keys, area(keys, 2.5) - power(keys, 2));
    }
}

void bench_keys_fini(struct bench_keys *keys)
{
    free(keys->drawn);
}

static uint64_t draw_zipf(struct bench_keys *keys)
{
    for (;;) {
        double u =
            keys->h_last + coxi_rand_unit(&keys->rng) * (keys->h_first - keys->h_last);
        double x = area_inverse(keys, u);
        double k = floor(x + 0.5);
        k = k < 1 ? 1 : k;
        k = k > (double)keys->rows ? (double)keys->rows : k;
        if (k - x <= keys->shift || u >= area(keys, k + 0.5) - power(keys, k)) {
            return (uint64_t)k - 1;
        }
    }
}

void bench_keys_draw(struct bench_keys *keys, size_t n, uint32_t *ret_rows)
{
    keys->batch++;
    for (size_t i = 0; i < n;) {
        uint64_t row =
            keys->exponent > 0 ? draw_zipf(keys) : coxi_rand(&keys->rng) % keys->rows;
        if (keys->drawn[row] != keys->batch) {
            keys->drawn[row] = keys->batch;
            ret_rows[i++] = (uint32_t)row;
        }
    }
}
