/*
 * Converts F32 to the narrow types BF16 and F16 and back, for the wire; finds numbers
 * that are too large; finds the decimal number that was meant by a float.
 *
 * Pure functions; any thread. Addresses need no alignment. Cost: a fraction of a
 * nanosecond for each number; if the numbers are in no cache, the speed of memory is
 * the limit.
 */
#ifndef COXI_COMMON_FLOATS_H
#define COXI_COMMON_FLOATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Narrows n F32 to `dtype` (COX_BF16 or COX_F16), rounded to the nearest, ties to even.
 * Numbers beyond the largest finite one become infinite; a NaN stays a NaN. `to` may be
 * `from`: in place.
 */
void coxi_floats_narrow(uint32_t dtype, const void *from, size_t n, void *to);

/* Like coxi_floats_narrow, but rounds up or down at random, so that the mean of many
 * draws is the number itself. The rounding of number i depends only on `draw` + i.
 * Numbers beyond the largest finite one become infinite, as above. */
void coxi_floats_narrow_drawn(uint32_t dtype, const void *from, size_t n, uint64_t draw,
                              void *to);

/* Widens n narrow numbers to F32, without loss. `from` and `to` do not overlap. */
void coxi_floats_widen(uint32_t dtype, const void *from, size_t n, void *to);

/*
 * The index of the first of n numbers (COX_F32, COX_BF16 or COX_F16) that is NaN, or
 * whose absolute value is at least `limit` (INFINITY: the first that is not finite); n:
 * none.
 */
size_t coxi_floats_beyond(uint32_t dtype, const void *from, size_t n, float limit);

/* Counts the infinite ones among n numbers (COX_BF16 or COX_F16). */
size_t coxi_floats_infinite(uint32_t dtype, const void *from, size_t n);

/*
 * The decimal number with the fewest digits that rounds to the finite x: 0.999 for
 * 0.999F. This is the number that the author of x meant. It matters in differences: 1 -
 * 0.999F has a relative error of 1.3e-5, although x itself has one of only 1e-8.
 */
double coxi_floats_decimal(float x);

#endif
