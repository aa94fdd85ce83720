/* How long a program waits, as the environment says. */
#include "common/patience.h"

#include <stdlib.h>

#include "common/error.h"
#include "tests/test.h"

static int fill(const char *text, int *ms)
{
    const struct coxi_patience_field one = {"COX_TEST_WAIT_MS", ms, false};
    assert_int_equal(0, setenv("COX_TEST_WAIT_MS", text, 1));
    return coxi_patience_fill(&one, 1);
}

TEST(what_the_program_does_not_say_the_environment_may)
{
    int ms = 0;
    assert_code(0, fill("600000", &ms));
    assert_int_equal(600000, ms);
    assert_code(0, fill("5", &ms)); /* it says so now */
    assert_int_equal(600000, ms);
    ms = 0;
    assert_code(0, fill("", &ms));
    assert_int_equal(0, ms);
    assert_code(0, fill("-1", &ms));
    assert_int_equal(-1, ms);
}

TEST(what_is_no_time_is_refused)
{
    static const char *const wrong[] = {"0", "-2", "1s", "ten", "2147483648", " "};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        int ms = 0;
        assert_code(COX_EINVAL, fill(wrong[i], &ms));
        assert_error_names("COX_TEST_WAIT_MS");
        assert_error_names(wrong[i]);
    }
}

TEST(a_wait_that_must_end_takes_no_minus_one)
{
    int ms = 0;
    const struct coxi_patience_field one = {"COX_TEST_WAIT_MS", &ms, true};
    assert_int_equal(0, setenv("COX_TEST_WAIT_MS", "-1", 1));
    assert_code(COX_EINVAL, coxi_patience_fill(&one, 1));
    assert_error_names("COX_TEST_WAIT_MS is '-1'");
    assert_null(strstr(coxi_error_text(), "no limit"));
    assert_int_equal(0, setenv("COX_TEST_WAIT_MS", "1", 1));
    assert_code(0, coxi_patience_fill(&one, 1));
    assert_int_equal(1, ms);
}
