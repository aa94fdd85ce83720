/* Initial values: a function of (seed, key, column) alone, so that every ps, every
 * restart and the evaluator agree on the values of a row before it was trained. */
#ifndef COXI_COMMON_INITIALIZER_H
#define COXI_COMMON_INITIALIZER_H

#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

enum coxi_initializer_kind {
    COXI_INIT_ZEROS = 0,
    COXI_INIT_CONSTANT,         /* a */
    COXI_INIT_UNIFORM,          /* in [a, b) */
    COXI_INIT_NORMAL,           /* mean a, standard deviation b (Box-Muller) */
    COXI_INIT_TRUNCATED_NORMAL, /* drawn again until it is in [a - 2b, a + 2b] */
    COXI_INIT_END,
};

/* COX_EINVAL: no such kind, or a parameter out of its range. */
int coxi_initializer_check(const struct coxi_initializer *initializer);

/* Fills the `n` columns of row `key`. Any thread. */
void coxi_initializer_row(const struct coxi_initializer *initializer, uint64_t key,
                          float *row, size_t n);

#endif
