#include "common/json_text.h"

#include <jansson.h>

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
