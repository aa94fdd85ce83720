/* Narrow floats, compared with their definitions. */
#include "common/floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/rand.h"
#include "coxswain/types.h"
#include "tests/test.h"

struct format {
    uint32_t dtype;
    int exponent_bits;
    int fraction_bits;
};

static const struct format formats[] = {{COX_BF16, 8, 7}, {COX_F16, 5, 10}};

/* The value of 16 bits, by the definition of IEEE 754's binary formats. */
static double value_of(const struct format *f, uint16_t bits)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    int fraction = bits & ((1 << f->fraction_bits) - 1);
    int exponent = bits >> f->fraction_bits & ((1 << f->exponent_bits) - 1);
    double sign = bits >> 15 != 0 ? -1 : 1;
    if (exponent == (1 << f->exponent_bits) - 1) {
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    return exponent == 0 ? sign * ldexp(fraction, 1 - bias - f->fraction_bits)
                         : sign * ldexp(fraction + (1 << f->fraction_bits),
                                        exponent - bias - f->fraction_bits);
}

static float widened(const struct format *f, uint16_t bits)
{
    float value;
    coxi_floats_widen(f->dtype, &bits, 1, &value);
    return value;
}

static uint16_t narrowed(const struct format *f, float value)
{
    uint16_t bits;
    coxi_floats_narrow(f->dtype, &value, 1, &bits);
    return bits;
}

TEST(floats_widen_to_what_every_narrow_number_says)
{
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            double expected = value_of(&formats[i], (uint16_t)bits);
            float found = widened(&formats[i], (uint16_t)bits);
            assert_true(isnan(expected) ? isnan(found) : (double)found == expected);
            assert_int_equal(bits >> 15, signbit(found) != 0);
        }
    }
}

TEST(floats_that_were_narrow_narrow_to_themselves)
{
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            float value = widened(&formats[i], (uint16_t)bits);
            uint16_t found = narrowed(&formats[i], value);
            if (isnan(value)) {
                assert_true(isnan(widened(&formats[i], found)));
            } else {
                assert_int_equal(bits, found);
            }
        }
    }
}

/* Between two neighbours (infinity counts as the next power of two) the middle is
 * rounded to the even one, any other number to the nearer one. */
TEST(floats_narrow_to_the_nearest_and_ties_to_even)
{
    for (size_t i = 0; i < 2; i++) {
        const struct format *f = &formats[i];
        uint32_t infinite = (uint32_t)((1 << f->exponent_bits) - 1) << f->fraction_bits;
        for (uint32_t low = 0; low < infinite; low++) {
            double a = value_of(f, (uint16_t)low);
            double b = low + 1 < infinite ? value_of(f, (uint16_t)(low + 1))
                                          : 2 * a - value_of(f, (uint16_t)(low - 1));
            float middle = (float)((a + b) / 2);
            uint16_t even = (uint16_t)(low + (low & 1));
            assert_int_equal(even, narrowed(f, middle));
            assert_int_equal(low, narrowed(f, nextafterf(middle, 0)));
            assert_int_equal(low + 1, narrowed(f, nextafterf(middle, INFINITY)));
            assert_int_equal(even | 0x8000, narrowed(f, -middle));
        }
    }
}

TEST(floats_beyond_the_largest_become_infinite)
{
    assert_int_equal(0x7bff, narrowed(&formats[1], 65504));
    assert_int_equal(0x7bff, narrowed(&formats[1], 65519));
    assert_int_equal(0x7c00, narrowed(&formats[1], 65520));
    assert_int_equal(0xfc00, narrowed(&formats[1], -1e30F));
    assert_int_equal(0x7c00, narrowed(&formats[1], INFINITY));
    assert_int_equal(0x7f80, narrowed(&formats[0], 3.4e38F));
    assert_int_equal(0xff80, narrowed(&formats[0], -INFINITY));
}

TEST(floats_narrow_in_place_and_at_any_address)
{
    enum { N = 1000 };
    static float values[N];
    static uint16_t expected[N];
    static uint8_t bytes[N * 4 + 1];
    static uint8_t back[N * 4 + 1];
    uint64_t rng = 5;
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)(coxi_rand(&rng) % 100000) / 7 - 5000;
    }
    for (size_t f = 0; f < 2; f++) {
        coxi_floats_narrow(formats[f].dtype, values, N, expected);
        memcpy(bytes + 1, values, sizeof(values));
        coxi_floats_narrow(formats[f].dtype, bytes + 1, N, bytes + 1);
        assert_memory_equal(expected, bytes + 1, sizeof(expected));
        coxi_floats_widen(formats[f].dtype, bytes + 1, N, back + 1);
        for (size_t i = 0; i < N; i++) {
            float found;
            memcpy(&found, back + 1 + i * 4, sizeof(found));
            assert_true(found == widened(&formats[f], expected[i]));
        }
    }
}

TEST(floats_that_are_not_finite_are_found)
{
    enum { N = 700 };
    static float values[N];
    static uint16_t narrow[N];
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const size_t places[] = {0, 1, 255, 256, 511, 699};
    assert_int_equal(N, coxi_floats_beyond(COX_F32, values, N, INFINITY));
    assert_int_equal(0, coxi_floats_beyond(COX_F32, values, 0, INFINITY));
    for (size_t i = 0; i < 24; i++) {
        memset(values, 0, sizeof(values));
        values[N - 1] = NAN;
        values[places[i / 4]] = bad[i % 4];
        assert_int_equal(places[i / 4],
                         coxi_floats_beyond(COX_F32, values, N, INFINITY));
        for (size_t f = 0; f < 2; f++) {
            coxi_floats_narrow(formats[f].dtype, values, N, narrow);
            assert_int_equal(places[i / 4],
                             coxi_floats_beyond(formats[f].dtype, narrow, N, INFINITY));
        }
    }
    values[N - 1] = values[0] = 3e38F; /* the largest finite numbers */
    values[places[5]] = values[1] = values[255] = values[256] = -3e38F;
    values[511] = values[699] = 1e-45F;
    assert_int_equal(N, coxi_floats_beyond(COX_F32, values, N, INFINITY));
}

TEST(floats_are_beyond_a_limit_from_the_limit_on)
{
    static const float limit = 18446744073709551616.0F; /* 2^64 */
    static const float least_half = 0.1F;               /* no F16 and no BF16 */
    float values[3] = {1, nextafterf(limit, 0), 0};
    assert_int_equal(3, coxi_floats_beyond(COX_F32, values, 3, limit));
    values[1] = -limit;
    assert_int_equal(1, coxi_floats_beyond(COX_F32, values, 3, limit));
    values[1] = NAN;
    assert_int_equal(1, coxi_floats_beyond(COX_F32, values, 3, limit));
    static const uint32_t dtypes[] = {COX_BF16, COX_F16};
    for (size_t i = 0; i < 2; i++) {
        uint16_t narrow[3];
        values[1] = 0.099F;
        coxi_floats_narrow(dtypes[i], values + 1, 1, narrow);
        assert_int_equal(1, coxi_floats_beyond(dtypes[i], narrow, 1, least_half));
        values[1] = -0.11F;
        coxi_floats_narrow(dtypes[i], values + 1, 1, narrow);
        assert_int_equal(0, coxi_floats_beyond(dtypes[i], narrow, 1, least_half));
        values[1] = 60000;
        coxi_floats_narrow(dtypes[i], values + 1, 1, narrow);
        assert_int_equal(1, coxi_floats_beyond(dtypes[i], narrow, 1, limit));
    }
}

TEST(floats_stand_for_the_decimals_that_they_were_written_as)
{
    static const double decimals[] = {0,      0.5,     0.9,      0.99,      0.999,
                                      0.9999, 0.99999, 0.999999, 0.9999999, 0.1234567,
                                      -0.3,   3,       1234.5,   1e-6,      16777216};
    for (size_t i = 0; i < sizeof(decimals) / sizeof(*decimals); i++) {
        assert_true(coxi_floats_decimal((float)decimals[i]) == decimals[i]);
    }
    static const float others[] = {FLT_MAX, FLT_MIN, 1e-30F, 1e30F, 0.99999994F};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_true((float)coxi_floats_decimal(others[i]) == others[i]);
    }
}

/* ---- rounded by chance */

TEST(floats_drawn_are_right_in_the_mean)
{
    enum { N = 40000 };
    static float values[N];
    static uint16_t drawn[N];
    static const float samples[] = {1.0003F, -3.3F, 0.1F,     1e-5F, -1e-8F,
                                    3e-9F,   1e3F,  65503.9F, 7e-6F};
    for (size_t f = 0; f < 2; f++) {
        for (size_t s = 0; s < sizeof(samples) / sizeof(*samples); s++) {
            double sum = 0;
            double least = (double)INFINITY;
            double most = -(double)INFINITY;
            for (size_t i = 0; i < N; i++) {
                values[i] = samples[s];
            }
            coxi_floats_narrow_drawn(formats[f].dtype, values, N, 99 + s, drawn);
            for (size_t i = 0; i < N; i++) {
                double x = value_of(&formats[f], drawn[i]);
                sum += x;
                least = x < least ? x : least;
                most = x > most ? x : most;
            }
            double value = (double)samples[s];
            assert_true(least <= value && value <= most);
            /* Only the sample's two neighbours are drawn, and their mean differs from
             * the sample by at most 6 standard deviations. */
            assert_true(fabs(sum / N - value) <= 6 * (most - least) / 2 / sqrt(N) +
                                                     1e-6 * fabs(value) + 0x1p-24 / N);
            assert_true(most - least <= 0x1p-7 * fabs(value) + 0x1p-24);
        }
    }
}

TEST(floats_drawn_leave_what_is_narrow_and_what_is_too_large)
{
    for (size_t f = 0; f < 2; f++) {
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            float value = widened(&formats[f], (uint16_t)bits);
            uint16_t drawn;
            coxi_floats_narrow_drawn(formats[f].dtype, &value, 1, bits, &drawn);
            assert_int_equal(narrowed(&formats[f], value), drawn);
        }
    }
    const float large[] = {65519, 65520, -1e6F};
    uint16_t drawn[3];
    coxi_floats_narrow_drawn(COX_F16, large, 3, 1, drawn);
    assert_int_equal(0x7bff, drawn[0]);
    assert_int_equal(0x7c00, drawn[1]);
    assert_int_equal(0xfc00, drawn[2]);
    assert_int_equal(2, coxi_floats_infinite(COX_F16, drawn, 3));
}

TEST(floats_are_drawn_by_their_number_alone)
{
    enum { N = 1000 };
    static float values[N];
    static uint16_t all[N];
    static uint16_t parts[N];
    for (size_t i = 0; i < N; i++) {
        values[i] = 0.1F * (float)i + 0.01F;
    }
    coxi_floats_narrow_drawn(COX_BF16, values, N, 7, all);
    for (size_t at = 0; at < N; at += 333) {
        size_t n = N - at < 333 ? N - at : 333;
        coxi_floats_narrow_drawn(COX_BF16, values + at, n, 7 + at, parts + at);
    }
    assert_memory_equal(all, parts, sizeof(all));
}
