#include "common/json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "common/rand.h"
#include "tests/test.h"

enum { N_TEXTS = 2000, LONGEST = 40 };

/* The string that a JSON reader finds. */
static json_t *read_back(const char *text)
{
    struct coxi_buffer out = {0};
    assert_code(0, coxi_json_text(&out, text));
    json_t *read = json_loadb((const char *)out.data, out.len, JSON_DECODE_ANY, NULL);
    coxi_buffer_fini(&out);
    assert_non_null(read);
    return read;
}

static void assert_read(const char *expected, const char *text)
{
    json_t *read = read_back(text);
    assert_string_equal(expected, json_string_value(read));
    json_decref(read);
}

TEST(json_text_keeps_utf8)
{
    static const char *const texts[] = {
        "",
        "plain",
        "\"quotes\" and \\",
        "a\nb\tc\x01\x1f\x7f",
        "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\xa3",
        "<script>&amp;",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_read(texts[i], texts[i]);
    }
}

TEST(json_text_replaces_what_is_not_utf8)
{
    static const char *const bad[] = {
        "\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xff", "\xe2\x82"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        json_t *read = read_back(bad[i]);
        assert_int_equal(3 * strlen(bad[i]), json_string_length(read));
        json_decref(read);
    }
}

TEST(json_text_of_any_bytes_is_json)
{
    uint64_t seed = 7;
    for (int i = 0; i < N_TEXTS; i++) {
        char text[LONGEST + 1] = "";
        size_t len = coxi_rand(&seed) % LONGEST;
        for (size_t at = 0; at < len; at++) {
            text[at] = (char)(1 + coxi_rand(&seed) % 255);
        }
        json_decref(read_back(text));
    }
}

static void assert_number_as_printed(double value)
{
    char expected[64];
    struct coxi_buffer out = {0};
    (void)snprintf(expected, sizeof(expected), "%.17g", value);
    assert_code(0, coxi_json_number(&out, value));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    assert_string_equal(expected, (const char *)out.data);
    coxi_buffer_fini(&out);
}

/* A number is as printf writes it, which is known to be exact: near powers of ten and of two,
 * where digits carry, and everywhere else. */
TEST(json_numbers_are_those_of_printf)
{
    uint64_t rand = 7;
    for (int ten = -7; ten < 20; ten++) {
        double value = pow(10, ten);
        assert_number_as_printed(value);
        assert_number_as_printed(-nextafter(value, 0));
        assert_number_as_printed(nextafter(value, INFINITY));
        assert_number_as_printed(value / 2);
        assert_number_as_printed(value * 3);
    }
    for (int two = -60; two < 70; two++) {
        assert_number_as_printed(ldexp(1, two));
        assert_number_as_printed(ldexp(1, two) + 0.5);
        assert_number_as_printed(nextafter(ldexp(1, two), 0));
    }
    assert_number_as_printed(0);
    assert_number_as_printed(-0.0);
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = coxi_rand(&rand);
        double value = ldexp((double)(bits >> 11), (int)(bits % 128) - 100);
        assert_number_as_printed(i % 2 == 0 ? value : (double)(float)value);
    }
}
