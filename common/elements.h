/*
 * Updates of elements other than gradients: add, assign, min, max. A ps applies them to
 * its values, a worker combines updates of the same row.
 *
 * Pure functions; on a ps the caller holds the lock of the row or block.
 */
#ifndef COXI_COMMON_ELEMENTS_H
#define COXI_COMMON_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

/* True if elements of `dtype` can be updated with `op`. False for gradients and unknown
 * numbers. BF16 and F16 have no arithmetic here: they take only assign. */
bool coxi_elements_take(uint32_t dtype, enum coxi_op op);

/*
 * Updates each element in the `bytes` bytes at `to` with the element at the same place
 * in `from`. `op` is one that the type takes (coxi_elements_take). `to` and `from` do
 * not overlap. Integers wrap around. Min and max ignore a NaN on either side; two NaNs
 * give a NaN.
 */
void coxi_elements_combine(uint32_t dtype, enum coxi_op op, void *to, const void *from,
                           size_t bytes);

#endif
