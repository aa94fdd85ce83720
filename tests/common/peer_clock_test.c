#include "common/peer_clock.h"

#include "tests/test.h"

TEST(clocks_that_may_be_the_same_count_as_the_same)
{
    struct coxi_peer_clock clock = {0};
    coxi_peer_clock_note(&clock, 1000, 1010, 1100); /* 40 before the middle */
    assert_int_equal(0, clock.ahead_us);
    assert_int_equal(1010, coxi_peer_clock_ours(&clock, 1010));
}

TEST(the_shortest_way_of_late_tells_how_far_a_clock_is)
{
    struct coxi_peer_clock clock = {0};
    coxi_peer_clock_note(&clock, 1000, 501200, 1200);
    assert_int_equal(500100, clock.ahead_us);
    coxi_peer_clock_note(&clock, 2000, 502050, 2020);
    assert_int_equal(500040, clock.ahead_us);
    coxi_peer_clock_note(&clock, 3000, 503900, 3900); /* a longer way says less */
    assert_int_equal(500040, clock.ahead_us);
    assert_int_equal(4000, coxi_peer_clock_ours(&clock, 504040));
    uint64_t later = 3000 + COXI_PEER_CLOCK_US;
    coxi_peer_clock_note(&clock, later, later + 500500, later + 900);
    assert_int_equal(500050, clock.ahead_us);
}

TEST(a_clock_may_be_behind)
{
    struct coxi_peer_clock clock = {0};
    coxi_peer_clock_note(&clock, 900000, 400005, 900010);
    assert_int_equal(-500000, clock.ahead_us);
    assert_int_equal(900007, coxi_peer_clock_ours(&clock, 400007));
}
