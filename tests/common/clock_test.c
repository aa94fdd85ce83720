/* Durations in 32 bits. */
#include "common/clock.h"

#include "tests/test.h"

TEST(clock_takes_a_span_that_does_not_fit_for_the_longest_that_does)
{
    const uint64_t minute = (uint64_t)60 * 1000000000;
    assert_int_equal(0, coxi_short_us(999));
    assert_int_equal(7, coxi_short_us(7999));
    assert_int_equal(71u * 60000000u, coxi_short_us(71 * minute));
    assert_int_equal(UINT32_MAX, coxi_short_us(72 * minute));
    assert_int_equal(UINT32_MAX, coxi_short_us(UINT64_MAX));
}
