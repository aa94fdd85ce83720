/*
 * Metrics: the meaning of the elements of a metric's variable, and the metric's value.
 * Steps only add to the elements; every role reads them in the same way.
 *
 *   SUM    {sum of weight * value}
 *   COUNT  {sum of weights}
 *   MEAN   {sum of weight * value, sum of weights}
 *   AUC    for each of n / 2 buckets of score {positive examples, negative ones}
 *
 * The buckets of an AUC are equal steps of a score's logit, log(score / (1 - score)),
 * from -16 to 16. If one example in a thousand is positive, nearly all scores are below
 * .01: equal steps of the score would put most examples into one bucket, and their
 * order would be lost.
 *
 * Pure functions; any thread.
 */
#ifndef COXI_COMMON_METRIC_H
#define COXI_COMMON_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

/* Zeros: the elements of a metric to which nothing was added, enough for any metric. */
extern const double coxi_metric_zeros[COXI_METRIC_MAX];

/* True if a metric of this kind can have n elements (F64). */
bool coxi_metric_fits(uint32_t kind, uint64_t n);

/* The bucket, of n_buckets (at least 1), for a score; scores below 0 and above 1 are in
 * the first and the last bucket. Never falls as the score rises. `score` is not NaN. */
size_t coxi_metric_bucket(double score, size_t n_buckets);

/*
 * The value of a metric with n elements, and the weight that was added to it (SUM: 0,
 * because it keeps none). A mean of nothing is NaN, and so is an AUC without positive
 * or without negative examples. AUC: the area under the ROC curve by trapezoids, one
 * for a bucket; the examples of a bucket count as equal in score. COX_EINVAL: no metric
 * of that kind has n elements.
 */
int coxi_metric_read(uint32_t kind, const double *data, size_t n, double *ret_value,
                     double *ret_weight);

/*
 * The area under the ROC curve of n examples, without buckets: the share of pairs of a
 * positive (label above 0.5) and a negative example in which the positive one has the
 * higher score; equal scores count half. NaN unless there are examples of both kinds.
 * Sorts a copy. COX_EINVAL: a label or score is NaN. COX_ENOMEM.
 */
int coxi_metric_auc(const float *labels, const float *scores, size_t n, double *ret);

#endif
