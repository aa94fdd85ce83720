#include "common/durations.h"

#include "tests/test.h"

enum { N = 1000 };

static void assert_near(uint32_t expected, uint32_t got)
{
    uint32_t most = expected / 14 + 1;
    if (got > expected + most || got + most < expected) {
        fail_msg("%u is not within 7 %% of %u", got, expected);
    }
}

TEST(durations_tell_quantiles_within_seven_percent)
{
    static struct coxi_durations durations;
    assert_int_equal(0, coxi_durations_quantile(&durations, 0.5));
    for (uint32_t i = 1; i <= N; i++) {
        coxi_durations_note(&durations, i * 37);
    }
    assert_int_equal(N, durations.n);
    assert_int_equal(37 * N * (N + 1) / 2, durations.sum_us);
    assert_near(37 * N / 2, coxi_durations_quantile(&durations, 0.5));
    assert_near(37 * N / 100 * 99, coxi_durations_quantile(&durations, 0.99));
    assert_int_equal(37 * N, coxi_durations_quantile(&durations, 1));
}

TEST(durations_have_a_bucket_for_every_number)
{
    for (uint64_t us = 1; us <= UINT32_MAX; us = us * 3 / 2 + 1) {
        static struct coxi_durations durations;
        durations = (struct coxi_durations){0};
        coxi_durations_note(&durations, (uint32_t)us);
        coxi_durations_note(&durations, UINT32_MAX);
        assert_near((uint32_t)us, coxi_durations_quantile(&durations, 0.5));
        assert_int_equal(UINT32_MAX, durations.max_us);
    }
}

TEST(durations_are_added)
{
    static struct coxi_durations a;
    static struct coxi_durations b;
    coxi_durations_note(&a, 5);
    coxi_durations_note(&b, 7);
    coxi_durations_note(&b, 6);
    coxi_durations_add(&a, &b);
    assert_int_equal(3, a.n);
    assert_int_equal(18, a.sum_us);
    assert_int_equal(6, coxi_durations_quantile(&a, 0.5));
    assert_int_equal(7, coxi_durations_quantile(&a, 1));
}

TEST(durations_by_power_count_all_in_their_place)
{
    static struct coxi_durations durations;
    struct coxi_latency latency = {0};
    uint64_t sum_us = 0;
    for (unsigned power = 0; power < 32; power++) {
        coxi_durations_note(&durations, (uint32_t)1 << power);
        coxi_durations_note(&durations, ((uint32_t)2 << power) - 1);
        sum_us += ((uint64_t)3 << power) - 1;
    }
    coxi_durations_note(&durations, 0);
    coxi_durations_by_power(&durations, &latency);
    assert_int_equal(1, latency.counts[0]);
    for (size_t i = 1; i + 1 < COXI_LATENCY_BUCKETS; i++) {
        assert_int_equal(2, latency.counts[i]);
    }
    assert_int_equal(2 * (32 - COXI_LATENCY_BUCKETS + 2),
                     latency.counts[COXI_LATENCY_BUCKETS - 1]);
    assert_int_equal(sum_us, latency.sum_us);
}
