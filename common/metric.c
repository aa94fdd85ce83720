/* See metric.h. */
#include "common/metric.h"

#include <math.h>
#include <stdlib.h>

#include "common/error.h"

const double coxi_metric_zeros[COXI_METRIC_MAX];

/* The largest F32 below 1 has a logit of 16.6. */
static const double LOGIT_MAX = 16;

bool coxi_metric_fits(uint32_t kind, uint64_t n)
{
    switch ((enum coxi_metric)kind) {
    case COXI_METRIC_SUM:
    case COXI_METRIC_COUNT:
        return n == 1;
    case COXI_METRIC_MEAN:
        return n == 2;
    case COXI_METRIC_AUC:
        return n >= 4 && n % 2 == 0;
    case COXI_METRIC_NONE:
    case COXI_METRIC_END:
        break;
    }
    return false;
}

size_t coxi_metric_bucket(double score, size_t n_buckets)
{
    if (score <= 0 || score >= 1) {
        return score >= 1 ? n_buckets - 1 : 0;
    }
    /* log1p, because with it the logit still rises with the score just below 1. */
    double logit = log(score) - log1p(-score);
    double bucket = (logit + LOGIT_MAX) / (2 * LOGIT_MAX) * (double)n_buckets;
    if (bucket >= (double)n_buckets) {
        return n_buckets - 1;
    }
    return bucket > 0 ? (size_t)bucket : 0;
}

/* The chance that a positive example has a higher score than a negative one. */
static double area(const double *positives, const double *negatives, size_t n,
                   double *ret_weight)
{
    double area = 0; /* counts pairs of a positive and a negative example */
    double positives_above = 0;
    double all_negatives = 0;
    for (size_t i = n; i-- > 0;) {
        area += negatives[i] * (positives_above + positives[i] / 2);
        positives_above += positives[i];
        all_negatives += negatives[i];
    }
    *ret_weight = positives_above + all_negatives;
    double pairs = positives_above * all_negatives;
    return pairs > 0 ? area / pairs : (double)NAN;
}

int coxi_metric_read(uint32_t kind, const double *data, size_t n, double *ret_value,
                     double *ret_weight)
{
    if (!coxi_metric_fits(kind, n)) {
        return coxi_error(COX_EINVAL, "no metric of kind %u has %zu elements", kind, n);
    }
    switch ((enum coxi_metric)kind) {
    case COXI_METRIC_SUM:
        *ret_value = data[0];
        *ret_weight = 0;
        break;
    case COXI_METRIC_COUNT:
        *ret_value = *ret_weight = data[0];
        break;
    case COXI_METRIC_MEAN:
        *ret_value = data[1] != 0 ? data[0] / data[1] : (double)NAN;
        *ret_weight = data[1];
        break;
    case COXI_METRIC_AUC:
        *ret_value = area(data, data + n / 2, n / 2, ret_weight);
        break;
    case COXI_METRIC_NONE:
    case COXI_METRIC_END:
        break; /* coxi_metric_fits has refused them */
    }
    return 0;
}

/* ---- from the examples themselves, without buckets */

struct example {
    float score;
    bool positive;
};

static int by_score(const void *a, const void *b)
{
    float x = ((const struct example *)a)->score;
    float y = ((const struct example *)b)->score;
    return (x > y) - (x < y);
}

/* Like area, for examples sorted by rising score: examples with the same score form a
 * bucket. */
static double area_sorted(const struct example *examples, size_t n)
{
    double area = 0; /* counts pairs, as above */
    double all_positives = 0;
    double negatives_below = 0;
    for (size_t i = 0; i < n;) {
        double positives = 0;
        double negatives = 0;
        float score = examples[i].score;
        for (; i < n && examples[i].score == score; i++) {
            positives += examples[i].positive;
            negatives += !examples[i].positive;
        }
        area += positives * (negatives_below + negatives / 2);
        all_positives += positives;
        negatives_below += negatives;
    }
    double pairs = all_positives * negatives_below;
    return pairs > 0 ? area / pairs : (double)NAN;
}

int coxi_metric_auc(const float *labels, const float *scores, size_t n, double *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(labels[i]) || isnan(scores[i])) {
            return coxi_error(COX_EINVAL, "%s %zu is NaN",
                              isnan(scores[i]) ? "score" : "label", i);
        }
    }
    struct example *examples = calloc(n + 1, sizeof(*examples));
    if (examples == NULL) {
        return coxi_error_memory("an AUC");
    }
    for (size_t i = 0; i < n; i++) {
        examples[i] = (struct example){scores[i], labels[i] > 0.5F};
    }
    qsort(examples, n, sizeof(*examples), by_score);
    *ret = area_sorted(examples, n);
    free(examples);
    return 0;
}
