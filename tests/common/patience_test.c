#include "common/patience.h"

#include "tests/test.h"

TEST(a_wait_says_so_after_10_s_and_then_ever_more_seldom)
{
    struct coxi_patience patience = {0};
    uint64_t said[8];
    size_t n = 0;
    for (uint64_t now_ms = 1000; now_ms <= 101000; now_ms += 100) {
        if (coxi_patience_ends(&patience, now_ms)) {
            said[n++] = coxi_patience_seconds(&patience, now_ms);
        }
    }
    assert_int_equal(4, n);
    assert_int_equal(10, said[0]);
    assert_int_equal(20, said[1]);
    assert_int_equal(40, said[2]);
    assert_int_equal(80, said[3]);
}

TEST(a_wait_that_has_not_begun_has_lasted_no_time)
{
    struct coxi_patience patience = {0};
    assert_int_equal(0, coxi_patience_seconds(&patience, 5000));
}
