/* The values of metrics, from their elements. */
#include "common/metric.h"

#include <math.h>
#include <string.h>

#include "common/layout.h"
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

/* Compares with a count of all pairs; a pair in one bucket counts half. */
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
    assert_int_equal(0, coxi_metric_bucket(0, 10));
    assert_int_equal(0, coxi_metric_bucket(1e-300, 10));
    assert_int_equal(2, coxi_metric_bucket(0.0016, 10)); /* a logit of -6.44 */
    assert_int_equal(3, coxi_metric_bucket(0.0017, 10)); /* -6.38: above -6.4 */
    assert_int_equal(4, coxi_metric_bucket(0.4999, 10));
    assert_int_equal(5, coxi_metric_bucket(0.5, 10));
    assert_int_equal(6, coxi_metric_bucket(0.9983, 10));
    assert_int_equal(7, coxi_metric_bucket(0.9984, 10));
    assert_int_equal(9, coxi_metric_bucket(1, 10));
    assert_int_equal(9, coxi_metric_bucket(1e300, 10));
    assert_int_equal(9, coxi_metric_bucket((double)INFINITY, 10));
}

/* ---- buckets against the examples themselves */

enum { EXAMPLES = 200000, BUCKETS_MAX = COXI_METRIC_MAX / 2 };

struct sample {
    double share; /* of positives */
    float labels[EXAMPLES];
    float scores[EXAMPLES];
};

static double normal(uint64_t *rng)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += coxi_rand_unit(rng);
    }
    return sum - 6;
}

/* Draws normal logits; those of positives are `apart` higher. Multiplies them by `narrow`
 * (1: about what a trained model gives) and adds the logit of the positives' share. */
static void draw_sample(struct sample *s, double apart, double narrow)
{
    uint64_t rng = 11;
    for (size_t i = 0; i < EXAMPLES; i++) {
        bool positive = coxi_rand_unit(&rng) < s->share;
        double logit = apart * (positive ? 1 : 0) + normal(&rng);
        logit = log(s->share / (1 - s->share)) + narrow * logit;
        s->labels[i] = positive ? 1 : 0;
        s->scores[i] = (float)(1 / (1 + exp(-logit)));
    }
}

static double bucketed(const struct sample *s, bool equal, size_t n_buckets)
{
    static double data[COXI_METRIC_MAX];
    memset(data, 0, sizeof(data));
    for (size_t i = 0; i < EXAMPLES; i++) {
        double score = (double)s->scores[i];
        size_t bucket = equal ? (size_t)(score * (double)n_buckets)
                              : coxi_metric_bucket(score, n_buckets);
        bucket = bucket < n_buckets ? bucket : n_buckets - 1;
        data[(s->labels[i] > 0 ? 0 : n_buckets) + bucket] += 1;
    }
    assert_code(
        0, coxi_metric_read(COXI_METRIC_AUC, data, 2 * n_buckets, &value, &weight));
    assert_true(weight == EXAMPLES);
    return value;
}

/* Prints the table of docs/metrics.md. */
TEST(metric_auc_is_close_to_the_exact_one)
{
    static const double shares[] = {0.03, 0.004, 0.001, 0.0006, 0.999};
    static struct sample s;
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
        double exact = 0;
        s.share = shares[i];
        draw_sample(&s, 1, 1);
        assert_code(0, coxi_metric_auc(s.labels, s.scores, EXAMPLES, &exact));
        double found = bucketed(&s, false, BUCKETS_MAX);
        double equal = bucketed(&s, true, 200);
        print_message("| %g %% | %.5f | %.5f | %.5f |\n", 100 * s.share, exact, found,
                      equal);
        assert_true(exact > 0.7 && exact < 0.85);
        assert_true(fabs(found - exact) <= 0.0005);
        draw_sample(&s, 1, 0.2); /* scores that hardly differ */
        assert_code(0, coxi_metric_auc(s.labels, s.scores, EXAMPLES, &exact));
        assert_true(fabs(bucketed(&s, false, BUCKETS_MAX) - exact) <= 0.002);
    }
}

TEST(metric_auc_of_examples_is_exact)
{
    static const float labels[] = {1, 0, 1, 0, 0};
    static const float scores[] = {3, -1, 0.5F, 0.5F, 1};
    static const float nan_scores[] = {1, NAN, 1, 1, 1};
    double exact = 7;
    assert_code(0, coxi_metric_auc(labels, scores, 5, &exact));
    assert_true(exact == 4.5 / 6);
    assert_code(0, coxi_metric_auc(labels, scores, 1, &exact));
    assert_true(isnan(exact));
    exact = 7;
    assert_code(COX_EINVAL, coxi_metric_auc(labels, nan_scores, 5, &exact));
    assert_error_names("score 1");
    assert_code(COX_EINVAL, coxi_metric_auc(nan_scores, scores, 5, &exact));
    assert_error_names("label 1");
    assert_true(exact == 7);
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
