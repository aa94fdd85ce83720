/*
 * See floats.h. Each loop works on a piece in a local array. Nothing overlaps there, so
 * the compiler can use vectors, and conversion in place is safe.
 *
 * The conversions have no branches: every case is computed, and one is chosen.
 */
#include "common/floats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/hash.h"
#include "coxswain/types.h"

enum { PIECE = 256 };

/* ---- one number, as bits */

static uint16_t to_bf16(uint32_t f)
{
    uint32_t rounded = f + 0x7fff + (f >> 16 & 1);
    bool nan = (f & 0x7fffffff) > 0x7f800000;
    return (uint16_t)((nan ? f | 0x400000 : rounded) >> 16);
}

static float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint32_t as_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* F16 has 5 bits of exponent (bias 15) and 10 of fraction, F32 8 (bias 127) and 23. */
static uint16_t to_f16(uint32_t f)
{
    const uint32_t infinite = 143u << 23; /* 2^16, and everything above it */
    const uint32_t least_normal = 113u << 23;
    /* 0.5: the last bit of an F32 of this size equals the smallest F16 */
    const uint32_t denormal = 126u << 23;
    uint32_t a = f & 0x7fffffff;
    uint32_t normal = (a + (a >> 13 & 1) + 0xfff - (112u << 23)) >> 13;
    uint32_t small = as_bits(as_float(a) + as_float(denormal)) - denormal;
    uint32_t beyond = a > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t h = a < least_normal ? small : normal;
    return (uint16_t)((a >= infinite ? beyond : h) | (f >> 16 & 0x8000));
}

static uint32_t from_f16(uint16_t h)
{
    uint32_t a = (uint32_t)(h & 0x7fff) << 13;
    uint32_t normal = a + (112u << 23);
    uint32_t beyond = a + (224u << 23);
    uint32_t small = as_bits(as_float(a + (113u << 23)) - as_float(113u << 23));
    uint32_t f = a < 1u << 23 ? small : normal;
    return (a >= 31u << 23 ? beyond : f) | (uint32_t)(h & 0x8000) << 16;
}

/* Rounds `f` to a number that the narrow type holds exactly: the next one above or
 * below in magnitude, as `chance` (32 random bits) decides. */
static uint32_t drawn(uint32_t dtype, uint32_t f, uint32_t chance)
{
    const uint32_t largest = dtype == COX_BF16 ? 0x7f7f0000 : 0x477fe000;
    uint32_t a = f & 0x7fffffff;
    uint32_t dropped = dtype == COX_BF16 ? 16 : 13;
    uint32_t rounded = (a + (chance >> (32 - dropped))) >> dropped << dropped;
    /* narrowing then rounds to the nearest; also if f is not finite */
    if (a >= largest) {
        return f;
    }
    if (dtype == COX_F16 && a < 113u << 23) { /* subnormal: in steps of 2^-24 */
        double steps = (double)as_float(a) * 0x1p24 + (double)chance * 0x1p-32;
        rounded = as_bits((float)(uint32_t)steps * 0x1p-24F);
    }
    return rounded | (f & 0x80000000);
}

/* ---- pieces */

static void narrow_piece(uint32_t dtype, const uint32_t *from, size_t n, uint16_t *to)
{
    if (dtype == COX_BF16) {
        for (size_t i = 0; i < n; i++) {
            to[i] = to_bf16(from[i]);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            to[i] = to_f16(from[i]);
        }
    }
}

static void widen_piece(uint32_t dtype, const uint16_t *from, size_t n, uint32_t *to)
{
    if (dtype == COX_BF16) {
        for (size_t i = 0; i < n; i++) {
            to[i] = (uint32_t)from[i] << 16;
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            to[i] = from_f16(from[i]);
        }
    }
}

static size_t piece_of(size_t at, size_t n)
{
    return n - at < PIECE ? n - at : PIECE;
}

void coxi_floats_narrow(uint32_t dtype, const void *from, size_t n, void *to)
{
    for (size_t at = 0; at < n; at += PIECE) {
        uint32_t wide[PIECE];
        uint16_t narrow[PIECE];
        size_t count = piece_of(at, n);
        memcpy(wide, (const uint8_t *)from + at * sizeof(*wide), count * sizeof(*wide));
        narrow_piece(dtype, wide, count, narrow);
        memcpy((uint8_t *)to + at * sizeof(*narrow), narrow, count * sizeof(*narrow));
    }
}

void coxi_floats_narrow_drawn(uint32_t dtype, const void *from, size_t n, uint64_t draw,
                              void *to)
{
    for (size_t at = 0; at < n; at += PIECE) {
        uint32_t wide[PIECE];
        uint16_t narrow[PIECE];
        size_t count = piece_of(at, n);
        memcpy(wide, (const uint8_t *)from + at * sizeof(*wide), count * sizeof(*wide));
        for (size_t i = 0; i < count; i++) {
            uint32_t chance = (uint32_t)(coxi_hash_key(draw + at + i) >> 32);
            wide[i] = drawn(dtype, wide[i], chance);
        }
        narrow_piece(dtype, wide, count, narrow);
        memcpy((uint8_t *)to + at * sizeof(*narrow), narrow, count * sizeof(*narrow));
    }
}

void coxi_floats_widen(uint32_t dtype, const void *from, size_t n, void *to)
{
    for (size_t at = 0; at < n; at += PIECE) {
        uint32_t wide[PIECE];
        uint16_t narrow[PIECE];
        size_t count = piece_of(at, n);
        memcpy(narrow, (const uint8_t *)from + at * sizeof(*narrow),
               count * sizeof(*narrow));
        widen_piece(dtype, narrow, count, wide);
        memcpy((uint8_t *)to + at * sizeof(*wide), wide, count * sizeof(*wide));
    }
}

/* ---- numbers that are too large: the bits of absolute values are ordered like the
 * values; infinity and then the NaNs are above all others */

static bool any_wide(const uint32_t *from, size_t n, uint32_t limit)
{
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (from[i] & 0x7fffffff) >= limit;
    }
    return any != 0;
}

static bool any_narrow(const uint16_t *from, size_t n, uint16_t limit)
{
    uint16_t any = 0;
    for (size_t i = 0; i < n; i++) {
        any = (uint16_t)(any | ((from[i] & 0x7fff) >= limit));
    }
    return any != 0;
}

/* True if a number of the piece is at least `limit`, which is given in bits of its
 * type. */
static bool any_beyond(uint32_t dtype, const uint8_t *from, size_t n, uint32_t limit)
{
    uint32_t wide[PIECE];
    uint16_t narrow[PIECE];
    if (dtype == COX_F32) {
        memcpy(wide, from, n * sizeof(*wide));
        return any_wide(wide, n, limit);
    }
    memcpy(narrow, from, n * sizeof(*narrow));
    return any_narrow(narrow, n, (uint16_t)limit);
}

/* Returns the bits of the type's least number that is not below `limit`. */
static uint32_t limit_bits(uint32_t dtype, float limit)
{
    uint32_t bits = as_bits(limit);
    if (dtype == COX_F32) {
        return bits;
    }
    uint16_t narrow = dtype == COX_BF16 ? (uint16_t)(bits >> 16) : to_f16(bits);
    uint32_t back = dtype == COX_BF16 ? (uint32_t)narrow << 16 : from_f16(narrow);
    return back < bits ? narrow + 1U : narrow;
}

size_t coxi_floats_beyond(uint32_t dtype, const void *from, size_t n, float limit)
{
    size_t size = dtype == COX_F32 ? sizeof(uint32_t) : sizeof(uint16_t);
    uint32_t bits = limit_bits(dtype, limit);
    const uint8_t *bytes = from;
    for (size_t at = 0; at < n; at += PIECE) {
        size_t count = piece_of(at, n);
        if (any_beyond(dtype, bytes + at * size, count, bits)) {
            while (!any_beyond(dtype, bytes + at * size, 1, bits)) {
                at++;
            }
            return at;
        }
    }
    return n;
}

/* ---- decimals. Dividing an integer below 2^53 by an exact power of ten rounds only
 * once, so the result is the number that a compiler makes of the same digits. 9 digits
 * are enough for every float. */

double coxi_floats_decimal(float x)
{
    double power = 1;
    for (int digits = 0; digits <= 15; digits++, power *= 10) {
        double scaled = rint((double)x * power);
        if (fabs(scaled) >= 9007199254740992.0) {
            break;
        }
        if ((float)(scaled / power) == x) {
            return scaled / power;
        }
    }
    return (double)x; /* too small or too large for the difference to matter */
}

size_t coxi_floats_infinite(uint32_t dtype, const void *from, size_t n)
{
    const uint16_t infinite = dtype == COX_BF16 ? 0x7f80 : 0x7c00;
    size_t count = 0;
    for (size_t at = 0; at < n; at += PIECE) {
        uint16_t narrow[PIECE];
        size_t k = piece_of(at, n);
        memcpy(narrow, (const uint8_t *)from + at * sizeof(*narrow),
               k * sizeof(*narrow));
        for (size_t i = 0; i < k; i++) {
            count += (narrow[i] & 0x7fff) == infinite;
        }
    }
    return count;
}
