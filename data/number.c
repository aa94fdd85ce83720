/*
 * See number.h. A number of up to 19 digits is a double times a power of ten, within two
 * or three units of the double's last place; in nearly all cases that decides the float.
 * strtof_l decides the others.
 */
#include "data/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

const double coxi_tens[COXI_EXACT_TENS + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

const double coxi_tenths[COXI_EXACT_TENS + 1] = {
    1e-0,  1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,  1e-8,  1e-9,  1e-10, 1e-11,
    1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22};

enum { DIGITS_MAX = 19, EXPONENT_MAX = 1000000 };

bool coxi_number_long(const uint8_t **at, uint64_t *ret)
{
    const uint8_t *p = *at;
    uint64_t n = 0;
    for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n)) {
            return false;
        }
    }
    if (p == *at) {
        return false;
    }
    *at = p;
    *ret = n;
    return true;
}

/* A decimal number: its first DIGITS_MAX digits without leading zeros, times a power of
 * ten. Further digits are dropped; they are less than a unit of the last digit. */
struct decimal {
    uint64_t n;
    int64_t exponent;
    int taken; /* of n's digits */
    bool any;  /* there are digits */
};

static const uint8_t *take_digits(const uint8_t *p, struct decimal *d,
                                  bool behind_point)
{
    for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
        d->any = true;
        if (d->taken < DIGITS_MAX) {
            d->n = d->n * 10 + digit;
            d->taken += d->n > 0;
            d->exponent -= behind_point;
        } else {
            d->exponent += !behind_point;
        }
    }
    return p;
}

/* Takes "e-7" and the like; without digits it is not of the number. */
static const uint8_t *take_exponent(const uint8_t *p, struct decimal *d)
{
    const uint8_t *start = p++;
    int64_t e = 0;
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    if (coxi_digit(*p) > 9) {
        return start;
    }
    for (unsigned digit; (digit = coxi_digit(*p)) <= 9; p++) {
        e = e < EXPONENT_MAX ? e * 10 + digit : e;
    }
    d->exponent += minus ? -e : e;
    return p;
}

static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Of a number that was looked at: strtof_l knows others, too. */
static bool by_library(const uint8_t *at, float *ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_locale);
    if (c_locale == (locale_t)0) {
        return false;
    }
    *ret = strtof_l((const char *)at, NULL, c_locale);
    return isfinite(*ret);
}

bool coxi_number_float_rare(const uint8_t **at, float *ret)
{
    const uint8_t *p = *at;
    struct decimal d = {0};
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    p = take_digits(p, &d, false);
    if (*p == '.') {
        p = take_digits(p + 1, &d, true);
    }
    if (d.any && (*p | 0x20) == 'e') {
        p = take_exponent(p, &d);
    }
    if (!d.any) {
        return false;
    }
    if (d.exponent >= -COXI_EXACT_TENS && d.exponent <= COXI_EXACT_TENS) {
        double x = d.exponent < 0 ? (double)d.n * coxi_tenths[-d.exponent]
                                  : (double)d.n * coxi_tens[d.exponent];
        if (coxi_float_is_sure(x)) {
            *at = p;
            *ret = minus ? -(float)x : (float)x;
            return true;
        }
    }
    if (!by_library(*at, ret)) {
        return false;
    }
    *at = p;
    return true;
}
