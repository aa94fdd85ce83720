/* What the elements of metrics come to. */
#include "common/metric.h"

#include <math.h>
#include <string.h>

#include "common/rand.h"
#include "coxswain/types.h"
#include "tests/test.h"

static double value;
static double weight;

TEST(metrics_come_to_sums_counts_and_means)
{
    const double data[] = {6, 4};
    assert_code(0, coxi_metric_read(COXI_METRIC_SUM, data, 1, &value, &weight));
    assert_true(value == 6 && weight == 0);
    assert_code(0, coxi_metric_read(COXI_METRIC_COUNT, data, 1, &value, &weight));
    assert_true(value == 6 && weight == 6);
    assert_code(0, coxi_metric_read(COXI_METRIC_MEAN, data, 2, &value, &weight));
    assert_true(value == 1.5 && weight == 4);
}

TEST(metric_of_nothing_is_no_number)
{
    const double none[8] = {0};
    const double positives_alone[8] = {1, 2, 3, 4};
    assert_code(0, coxi_metric_read(COXI_METRIC_MEAN, none, 2, &value, &weight));
    assert_true(isnan(value) && weight == 0);
    assert_code(0, coxi_metric_read(COXI_METRIC_AUC, none, 8, &value, &weight));
    assert_true(isnan(value) && weight == 0);
    assert_code(0,
                coxi_metric_read(COXI_METRIC_AUC, positives_alone, 8, &value, &weight));
    assert_true(isnan(value) && weight == 10);
}

TEST(metric_auc_tells_order_and_counts_ties_as_half)
{
    const double apart[] = {0, 0, 5, 3, 0, 0};
    const double reversed[] = {5, 0, 0, 0, 0, 3};
    const double tied[] = {0, 5, 0, 0, 3, 0};
    assert_code(0, coxi_metric_read(COXI_METRIC_AUC, apart, 6, &value, &weight));
    assert_true(value == 1 && weight == 8);
    assert_code(0, coxi_metric_read(COXI_METRIC_AUC, reversed, 6, &value, &weight));
    assert_true(value == 0 && weight == 8);
    assert_code(0, coxi_metric_read(COXI_METRIC_AUC, tied, 6, &value, &weight));
    assert_true(value == 0.5 && weight == 8);
}

/* Pair by pair, ties by bucket. */
TEST(metric_auc_is_the_share_of_pairs_in_order)
{
    enum { N = 300, BUCKETS = 40 };
    double data[2 * BUCKETS] = {0};
    size_t buckets[N];
    uint64_t rng = 7;
    for (size_t i = 0; i < N; i++) {
        bool positive = i % 3 == 0;
        double score = (double)(coxi_rand(&rng) % 1000) / 1000;
        score = positive ? sqrt(score) : score;
        buckets[i] = coxi_metric_bucket(score, BUCKETS);
        data[(positive ? 0 : BUCKETS) + buckets[i]] += 1;
    }
    double in_order = 0;
    for (size_t p = 0; p < N; p += 3) {
        for (size_t n = 0; n < N; n++) {
            if (n % 3 != 0) {
                in_order += buckets[p] > buckets[n]    ? 1
                            : buckets[p] == buckets[n] ? 0.5
                                                       : 0;
            }
        }
    }
    assert_code(0,
                coxi_metric_read(COXI_METRIC_AUC, data, 2 * BUCKETS, &value, &weight));
    assert_true(weight == N);
    assert_true(fabs(value - in_order / (100.0 * 200.0)) < 1e-12);
}

TEST(metric_buckets_take_all_scores)
{
    assert_int_equal(0, coxi_metric_bucket(-5, 10));
    assert_int_equal(0, coxi_metric_bucket(-(double)INFINITY, 10));
    assert_int_equal(0, coxi_metric_bucket(0.0999, 10));
    assert_int_equal(1, coxi_metric_bucket(0.1, 10));
    assert_int_equal(9, coxi_metric_bucket(0.95, 10));
    assert_int_equal(9, coxi_metric_bucket(1, 10));
    assert_int_equal(9, coxi_metric_bucket(1e300, 10));
    assert_int_equal(9, coxi_metric_bucket((double)INFINITY, 10));
}

TEST(metric_kinds_take_their_number_of_elements_alone)
{
    const double data[4] = {0};
    value = 7;
    for (uint64_t n = 0; n < 9; n++) {
        assert_true(coxi_metric_fits(COXI_METRIC_SUM, n) == (n == 1));
        assert_true(coxi_metric_fits(COXI_METRIC_COUNT, n) == (n == 1));
        assert_true(coxi_metric_fits(COXI_METRIC_MEAN, n) == (n == 2));
        assert_true(coxi_metric_fits(COXI_METRIC_AUC, n) ==
                    (n == 4 || n == 6 || n == 8));
        assert_false(coxi_metric_fits(COXI_METRIC_NONE, n));
        assert_false(coxi_metric_fits(COXI_METRIC_END, n));
    }
    assert_code(COX_EINVAL,
                coxi_metric_read(COXI_METRIC_MEAN, data, 1, &value, &weight));
    assert_error_names("kind 3");
    assert_true(value == 7);
}
