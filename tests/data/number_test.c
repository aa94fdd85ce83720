/* Numbers in text, against the C library's. */
#include "data/number.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "common/rand.h"
#include "tests/test.h"

enum { N = 400000 };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static void check_float(const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    char *end;
    float expected = strtof(text, &end);
    float got = -77;
    bool is = coxi_number_float(&at, &got);
    if (is != (isfinite(expected) && end != text)) {
        fail_msg("'%s' is %sa number", text, is ? "" : "not ");
    }
    if (is && (bits_of(got) != bits_of(expected) || (const char *)at != end)) {
        fail_msg("'%s' is %a, not %a", text, (double)got, (double)expected);
    }
}

TEST(floats_of_every_form_are_right_to_the_last_bit)
{
    static const char *const formats[] = {"%.1f",  "%.3f", "%.6f", "%.9g", "%.17g",
                                          "%.25g", "%.4e", "%g",   "%.0f", "%.19g"};
    uint64_t rng = 1;
    for (size_t i = 0; i < N; i++) {
        char text[512];
        double x =
            (coxi_rand_unit(&rng) - 0.5) * pow(10, (double)(coxi_rand(&rng) % 16));
        x = i % 16 == 0 ? x * pow(10, (double)(coxi_rand(&rng) % 90) - 60) : x;
        (void)snprintf(text, sizeof(text), formats[i % 10], x);
        check_float(text);
    }
}

/* Just at, above and below the middle between two floats. */
TEST(floats_next_to_a_boundary_are_right)
{
    uint64_t rng = 2;
    for (size_t i = 0; i < N / 4; i++) {
        char text[512];
        uint32_t bits = (uint32_t)(coxi_rand(&rng) % 0x7f000000);
        bits = i % 2 == 0 ? 0x2f000000 + bits % 0x20000000 : bits;
        float x;
        memcpy(&x, &bits, sizeof(x));
        double middle = ((double)x + (double)nextafterf(x, INFINITY)) / 2;
        double near[] = {middle, nextafter(middle, 0), nextafter(middle, INFINITY)};
        static const char *const formats[] = {"%.17g", "%.20g", "%.40g", "%.60f"};
        (void)snprintf(text, sizeof(text), formats[i / 4 % 4], near[i % 3]);
        check_float(text);
    }
}

TEST(odd_floats_are_as_strtof_has_them)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "+0",
        "0.0",
        ".5",
        "5.",
        "-.5e1",
        "1e0",
        "1E5",
        "1e+05",
        "1e-05",
        "1e",
        "1e+",
        "1e-x",
        "16777217",
        "16777219",
        "33554434.999999999999999999999",
        "1e38",
        "3.4028235e38",
        "3.4028236e38",
        "3.5e38",
        "1e39",
        "1e400",
        "1e-400",
        "1e-45",
        "7e-46",
        "1.17549435e-38",
        "1.1754943e-38",
        "0e999999999999999999",
        "-",
        "+",
        ".",
        "-.",
        "e5",
        "",
        " 1",
        "--1",
        "00000000000000000000000000000000000001",
        "0.000000000000000000000000000000000001",
        "99999999999999999999",
        "9999999999999999999",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1234567890123456789012345678901234567890",
        "1e19",
        "1.e2",
        "1..2",
        "1.2.3",
        "9007199254740993",
        "0.50000001490116119384765625",
        "1."
        "00000005960464477539062500000000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        if (strcmp(texts[i], " 1") != 0) {
            check_float(texts[i]);
        }
    }
}

TEST(integers_have_64_bits)
{
    static const struct {
        const char *text;
        bool is;
        uint64_t n;
    } cases[] = {{"0:", true, 0},
                 {"9999999999999999999", true, UINT64_C(9999999999999999999)},
                 {"18446744073709551615", true, UINT64_MAX},
                 {"0000000000000000000000018446744073709551615", true, UINT64_MAX},
                 {"18446744073709551616", false, 0},
                 {"99999999999999999999", false, 0},
                 {"184467440737095516150", false, 0},
                 {"", false, 0},
                 {"-1", false, 0},
                 {"x", false, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[64] = "";
        const uint8_t *at = (const uint8_t *)text;
        uint64_t n = 77;
        (void)snprintf(text, sizeof(text), "%s", cases[i].text);
        assert_int_equal(cases[i].is, coxi_number_u64(&at, &n));
        assert_int_equal(cases[i].is ? cases[i].n : 77, n);
    }
}

/* Any bytes follow: above and below digits, and digits again behind them. */
TEST(integers_of_every_length_end_with_their_digits)
{
    uint64_t rng = 2;
    for (int i = 0; i < N; i++) {
        char text[48];
        char *end;
        size_t len = 1 + coxi_rand(&rng) % 19;
        uint64_t got = 77;
        for (size_t j = 0; j < sizeof(text); j++) {
            text[j] = (char)(j < len ? '0' + coxi_rand(&rng) % 10 : coxi_rand(&rng));
        }
        text[len] = (char)(text[len] >= '0' && text[len] <= '9' ? ':' : text[len]);
        const uint8_t *at = (const uint8_t *)text;
        uint64_t expected = strtoull(text, &end, 10);
        assert_true(coxi_number_u64(&at, &got));
        assert_int_equal(expected, got);
        assert_ptr_equal(end, at);
    }
}
