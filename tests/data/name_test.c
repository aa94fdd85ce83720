/* Names of files, and what messages show of them. */
#include "data/name.h"

#include <stdio.h>

#include "coxswain/types.h"
#include "data/sources.h"
#include "data/stream.h"
#include "tests/test.h"

TEST(secrets_of_an_address_are_not_shown)
{
    static const struct {
        const char *name;
        const char *shown;
    } all[] = {
        {"https://h/a.gz?X-Amz-Signature=77&X-Amz-Credential=k", "https://h/a.gz"},
        {"https://h/a.csv#part", "https://h/a.csv"},
        {"http://user:pass@h:80/a@b", "http://h:80/a@b"},
        {"http://user:p@ss@h", "http://h"},
        {"http://h?at=x@y/z", "http://h"},
        {"gopher://user:pass@h/a", "gopher://h/a"},
        {"http:?a=://secret", "http:"},
        {"://", "://"},
        {"s3://bucket/key?#@b", "s3://bucket/key?#@b"},
        {"/dir/what?#@.gz", "/dir/what?#@.gz"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%s", all[i].name);
        assert_string_equal(all[i].shown, coxi_name_shown(name).text);
        coxi_name_hide(name);
        assert_string_equal(all[i].shown, name);
    }
}

TEST(a_long_name_is_cut_without_its_secrets)
{
    char name[2000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memcpy(name, "http://", 7);
    memcpy(name + 1000, "@host/a.gz?s", 12);
    assert_string_equal("http://host/a.gz", coxi_name_shown(name).text);
}

TEST(the_end_of_a_name_is_before_its_query)
{
    assert_true(coxi_name_inflates("http://h/x.gz?sig=1"));
    assert_true(coxi_name_inflates("/dir/x.gz"));
    assert_true(coxi_name_inflates("s3://bucket/x?.gz"));
    assert_false(coxi_name_inflates("http://h/x?name=y.gz"));
    assert_false(coxi_name_inflates("x.gz?"));
    assert_false(coxi_name_inflates(".gz"));
    assert_true(coxi_name_has_format("https://h/x.csv.gz?sig=1", ".csv"));
    assert_true(coxi_name_has_format("https://h/x.csv#1", ".csv"));
    assert_false(coxi_name_has_format("https://h/x?f=.csv", ".csv"));
    assert_false(coxi_name_has_format(".csv", ".csv"));
}

TEST(errors_of_opening_an_address_show_no_secrets)
{
    static const char *const names[] = {"http://user:secret@h/x", "gopher://h/x?secret",
                                        "http://?secret"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct coxi_source source;
        struct coxi_found found;
        assert_code(COX_EINVAL, coxi_source_open(names[i], &source));
        assert_null(strstr(coxi_test_error(), "secret"));
        int r = coxi_source_find(names[i], &found);
        if (r == 0) {
            coxi_found_fini(&found);
        }
    }
    struct coxi_found found;
    assert_code(COX_EINVAL, coxi_source_find("http://h/a*?secret", &found));
    assert_null(strstr(coxi_test_error(), "secret"));
}
