/*
 * F32 in the narrow types BF16 and F16, for the wire; which numbers are too large; decimals.
 *
 * Pure functions; any thread. Addresses need no alignment. Cost: a fraction of a nanosecond
 * a number; memory bounds it where the numbers are in no cache.
 */
#ifndef COXI_COMMON_FLOATS_H
#define COXI_COMMON_FLOATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * n F32 as `dtype` (COX_BF16 or COX_F16), rounded to the nearest, ties to even; what is
 * beyond the largest F16 becomes infinite, a NaN stays one. `to` may be `from`: in place.
 */
void coxi_floats_narrow(uint32_t dtype, const void *from, size_t n, void *to);

/*
 * The same, but rounded up or down by chance, so that the mean of many draws is the number
 * itself: number i goes by `draw` + i alone. What is beyond the largest finite one is as above.
 */
void coxi_floats_narrow_drawn(uint32_t dtype, const void *from, size_t n, uint64_t draw,
                              void *to);

/* And back, which loses nothing. They do not overlap. */
void coxi_floats_widen(uint32_t dtype, const void *from, size_t n, void *to);

/* The first of n numbers (COX_F32, COX_BF16 or COX_F16) that is NaN, or whose absolute value
 * is `limit` or more (INFINITY: that is not finite); n: none. */
size_t coxi_floats_beyond(uint32_t dtype, const void *from, size_t n, float limit);

/* How many of n numbers (COX_BF16 or COX_F16) are infinite. */
size_t coxi_floats_infinite(uint32_t dtype, const void *from, size_t n);

/*
 * The decimal number of fewest digits that rounds to x, which is finite: 0.999 of 0.999F. What
 * somebody meant who wrote x: 1 - 0.999F is off by 1.3e-5 of 0.001, as x is by 1e-8 of itself.
 */
double coxi_floats_decimal(float x);

#endif
