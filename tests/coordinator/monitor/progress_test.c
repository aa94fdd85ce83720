/* When a run will be done. */
#include "coordinator/monitor/progress.h"

#include "tests/test.h"

TEST(the_pace_is_that_since_the_first_closure)
{
    struct coxi_progress_pace pace = {0};
    assert_true(coxi_progress_eta_s(&pace, 1000, 0, 100) < 0);
    assert_true(coxi_progress_eta_s(&pace, 60000, 0, 100) < 0);
    assert_float_equal(9, coxi_progress_eta_s(&pace, 61000, 10, 100), 1e-6);
    assert_float_equal(8, coxi_progress_eta_s(&pace, 62000, 20, 100), 1e-6);
}

TEST(the_pace_is_that_of_the_last_half_minute)
{
    struct coxi_progress_pace pace = {0};
    uint64_t now_ms = 0;
    uint64_t settled = 1;
    for (int i = 0; i < 100; i++) { /* one a second */
        (void)coxi_progress_eta_s(&pace, now_ms += 1000, ++settled, 10000);
    }
    double eta_s = 0;
    for (int i = 0; i < COXI_PROGRESS_SECONDS; i++) { /* then ten */
        eta_s = coxi_progress_eta_s(&pace, now_ms += 1000, settled += 10, 10000);
    }
    assert_float_equal((double)(10000 - settled) / 10, eta_s, 1e-6);
}

TEST(without_a_pace_nobody_knows_and_with_everything_done_nothing_is_left)
{
    struct coxi_progress_pace pace = {0};
    for (uint64_t i = 0; i < COXI_PROGRESS_SECONDS; i++) {
        assert_true(coxi_progress_eta_s(&pace, 1000 * i, 5, 100) < 0);
    }
    assert_true(coxi_progress_eta_s(&pace, 99000, 100, 100) == 0);
    assert_true(coxi_progress_eta_s(&pace, 99000, 120, 100) == 0);
    struct coxi_progress_pace first = {0};
    assert_true(coxi_progress_eta_s(&first, 1000, 5, 100) < 0);
}
