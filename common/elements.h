/*
 * What updates other than gradients do to elements of a type: add, assign, min, max. A
 * ps does it to what it has, a worker to updates of the same row.
 *
 * Pure functions; on a ps the caller holds the lock of the row or block.
 */
#ifndef COXI_COMMON_ELEMENTS_H
#define COXI_COMMON_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

/* False for gradients and unknown numbers, and where `dtype` has no arithmetic here (BF16 and F16: assign
 * alone). */
bool coxi_elements_take(uint32_t dtype, enum coxi_op op);

/*
 * Each of the elements in `bytes` bytes at `to` becomes what `op`, which its type takes,
 * makes of it and its fellow at `from`, which is elsewhere. Integers wrap around. Min and
 * max ignore a NaN, at `from` and at `to`: only two NaNs leave one.
 */
void coxi_elements_combine(uint32_t dtype, enum coxi_op op, void *to, const void *from,
                           size_t bytes);

#endif
