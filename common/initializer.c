/* See initializer.h. */
#include "common/initializer.h"

#include <math.h>
#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/rand.h"

int coxi_initializer_check(const struct coxi_initializer *initializer)
{
    if (initializer->kind >= COXI_INIT_END) {
        return coxi_error(COX_EINVAL, "%u is no initializer", initializer->kind);
    }
    if (!isfinite(initializer->a) || !isfinite(initializer->b)) {
        return coxi_error(COX_EINVAL, "an initializer's parameters must be finite");
    }
    bool takes_a = initializer->kind != COXI_INIT_ZEROS;
    bool takes_b = takes_a && initializer->kind != COXI_INIT_CONSTANT;
    if ((!takes_a && initializer->a != 0) || (!takes_b && initializer->b != 0)) {
        return coxi_error(
            COX_EINVAL,
            "the initializer's %s is %g, but %s has no use for it: leave "
            "it 0",
            initializer->b != 0 ? "b" : "a",
            (double)(initializer->b != 0 ? initializer->b : initializer->a),
            takes_a ? "a constant" : "one of zeros");
    }
    if (initializer->kind == COXI_INIT_UNIFORM &&
        (initializer->a > initializer->b ||
         !isfinite(initializer->b - initializer->a))) {
        return coxi_error(COX_EINVAL, "%g to %g is no range of a uniform initializer",
                          (double)initializer->a, (double)initializer->b);
    }
    if ((initializer->kind == COXI_INIT_NORMAL ||
         initializer->kind == COXI_INIT_TRUNCATED_NORMAL) &&
        initializer->b < 0) {
        return coxi_error(COX_EINVAL,
                          "a normal initializer's deviation must not be negative: %g",
                          (double)initializer->b);
    }
    return 0;
}

/* Two independent standard normal numbers. */
static void normal_pair(uint64_t *state, double ret[2])
{
    double radius = sqrt(-2.0 * log(1.0 - coxi_rand_unit(state)));
    double angle = 6.283185307179586 * coxi_rand_unit(state);
    ret[0] = radius * cos(angle);
    ret[1] = radius * sin(angle);
}

static void fill_normal(uint64_t state, float mean, float deviation, float *row,
                        size_t n)
{
    for (size_t i = 0; i < n; i += 2) {
        double pair[2];
        normal_pair(&state, pair);
        row[i] = mean + deviation * (float)pair[0];
        if (i + 1 < n) {
            row[i + 1] = mean + deviation * (float)pair[1];
        }
    }
}

/* Draws until it has n numbers in range. It ends, because 21 of 22 numbers are in
 * range, and the generator does not repeat itself. */
static void fill_truncated(uint64_t state, float mean, float deviation, float *row,
                           size_t n)
{
    for (size_t i = 0; i < n;) {
        double pair[2];
        normal_pair(&state, pair);
        for (size_t k = 0; k < 2 && i < n; k++) {
            if (fabs(pair[k]) <= 2) {
                row[i++] = mean + deviation * (float)pair[k];
            }
        }
    }
}

void coxi_initializer_row(const struct coxi_initializer *initializer, uint64_t key,
                          float *row, size_t n)
{
    uint64_t state = initializer->seed ^ coxi_hash_key(key);
    float a = initializer->a;
    float b = initializer->b;
    switch ((enum coxi_initializer_kind)initializer->kind) {
    case COXI_INIT_NORMAL:
        fill_normal(state, a, b, row, n);
        return;
    case COXI_INIT_TRUNCATED_NORMAL:
        fill_truncated(state, a, b, row, n);
        return;
    case COXI_INIT_UNIFORM:
        for (size_t i = 0; i < n; i++) {
            float x = a + (b - a) * (float)coxi_rand_unit(&state);
            /* a number close below b may round to b */
            row[i] = x < b ? x : nextafterf(b, a);
        }
        return;
    case COXI_INIT_ZEROS:
    case COXI_INIT_CONSTANT:
    case COXI_INIT_END:
        break;
    }
    for (size_t i = 0; i < n; i++) {
        row[i] = initializer->kind == COXI_INIT_CONSTANT ? a : 0;
    }
}
