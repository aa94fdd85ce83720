/*
 * Numbers in text: decimal integers, and floats that are right to the last bit, whatever
 * the locale. All stop at the first byte that is not of the number; so behind the text
 * there must be such a byte (a stream has a newline there).
 *
 * Cost: about a nanosecond a digit. Any thread.
 */
#ifndef COXI_DATA_NUMBER_H
#define COXI_DATA_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The powers of ten that a double has exactly, and their inverses. */
enum { COXI_EXACT_TENS = 22 };
extern const double coxi_tens[COXI_EXACT_TENS + 1];
extern const double coxi_tenths[COXI_EXACT_TENS + 1];

static inline unsigned coxi_digit(uint8_t c)
{
    return (unsigned)c - '0';
}

/* As below for 19 digits and more. */
bool coxi_number_long(const uint8_t **at, uint64_t *ret);

/* As below, digit by digit. */
static inline bool coxi_number_digits(const uint8_t **at, uint64_t *ret)
{
    const uint8_t *p = *at;
    uint64_t n = 0;
    for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
        n = n * 10 + digit;
    }
    if (p - *at >= 20 || p == *at) {
        return coxi_number_long(at, ret);
    }
    *at = p;
    *ret = n;
    return true;
}

/* Takes digits. False: there are none, or they are more than 64 bits; *at stays. Reads 8
 * bytes at *at, whatever they are, and takes up to 7 digits of them at once. */
static inline bool coxi_number_u64(const uint8_t **at, uint64_t *ret)
{
    uint64_t n;
    memcpy(&n, *at, sizeof(n)); /* the first digit is the lowest byte */
    n ^= 0x3030303030303030;    /* digits become 0 to 9 */
    uint64_t others = ((n + 0x7676767676767676) | n) & 0x8080808080808080;
    if (others == 0 || (others & 0x80) != 0) {
        return coxi_number_digits(at, ret);
    }
    unsigned bits = (unsigned)__builtin_ctzll(others) & ~7u; /* of the digits */
    n <<= 64 - bits;
    n = (n * 10 + (n >> 8)) & 0x00ff00ff00ff00ff;
    n = (n * 100 + (n >> 16)) & 0x0000ffff0000ffff;
    *ret = (n * 10000 + (n >> 32)) & 0xffffffff;
    *at += bits / 8;
    return true;
}

/*
 * A double that is within 8 units in its last place of a decimal number becomes that
 * number's float, unless a float's rounding boundary is as near. False: it is; or the
 * number is outside the normal floats.
 */
static inline bool coxi_float_is_sure(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    /* The 29 bits that a float lacks: half of a unit is 1 << 28. */
    uint64_t from_half = (bits & 0x1fffffff) - ((1u << 28) - 8);
    return from_half > 16 && x < 0x1p127 && (x >= 0x1p-126 || x == 0);
}

/* As below for any number: with exponents, with many digits, next to a boundary. */
bool coxi_number_float_rare(const uint8_t **at, float *ret);

/* Takes a number as strtof does, but finite and decimal. False: there is none; *at
 * stays. */
static inline bool coxi_number_float(const uint8_t **at, float *ret)
{
    const uint8_t *p = *at;
    if (coxi_digit(p[0]) <= 9 && (p[1] == ' ' || p[1] == '\n')) { /* most often 1 */
        *at = p + 1;
        *ret = (float)coxi_digit(p[0]);
        return true;
    }
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    const uint8_t *digits = p;
    const uint8_t *point;
    uint64_t n = 0;
    for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
        n = n * 10 + digit;
    }
    point = p;
    if (*p == '.') {
        p++;
        for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
            n = n * 10 + digit;
        }
    }
    uint64_t decimals = p > point ? (uint64_t)(p - point) - 1 : 0;
    double x = (double)n * coxi_tenths[decimals <= 19 ? decimals : 0];
    /* At least one digit and at most 19; with the point that is one byte more. */
    if (p - digits > 19 || p - digits - (p > point) < 1 || (*p | 0x20) == 'e' ||
        !coxi_float_is_sure(x)) {
        return coxi_number_float_rare(at, ret);
    }
    *at = p;
    *ret = minus ? -(float)x : (float)x;
    return true;
}

#endif
