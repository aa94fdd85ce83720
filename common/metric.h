/*
 * Metrics: what the elements of a metric's variable mean, and what they come to. Steps
 * only ever add to them; every role reads them alike.
 *
 *   SUM    {sum of weight * value}
 *   COUNT  {sum of weights}
 *   MEAN   {sum of weight * value, sum of weights}
 *   AUC    by score, in n / 2 buckets: {positive examples of each, negative ones of each}
 *
 * The buckets of an AUC are equal steps of a score's logit, log(score / (1 - score)), from
 * -16 to 16. Where one example in a thousand is positive, nearly all scores are below .01:
 * equal steps of score would put most examples into one bucket, whose order is lost.
 *
 * Pure functions; any thread.
 */
#ifndef COXI_COMMON_METRIC_H
#define COXI_COMMON_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

/* What a metric of nothing holds: as many zeros as any metric has elements. */
extern const double coxi_metric_zeros[COXI_METRIC_MAX];

/* True where a metric of this kind can have n elements (F64). */
bool coxi_metric_fits(uint32_t kind, uint64_t n);

/* The bucket of n_buckets (at least 1) that holds a score; those beyond 0 and 1 are in the
 * first and the last one. Never falls as the score rises. `score` is not NaN. */
size_t coxi_metric_bucket(double score, size_t n_buckets);

/*
 * What n elements of a metric come to, and how much weight has gone into it (SUM: 0, it
 * keeps none). Of nothing, a mean is NaN, and so is an AUC where positives or negatives are
 * missing. AUC: the area under the ROC curve by trapezoids, one for a bucket; the examples
 * of a bucket count as equal in score. COX_EINVAL: no metric of that kind has n elements.
 */
int coxi_metric_read(uint32_t kind, const double *data, size_t n, double *ret_value,
                     double *ret_weight);

/*
 * The area under the ROC curve of n examples themselves, no buckets: the share of pairs of
 * a positive (label above 0.5) and a negative example in which the positive one has the
 * higher score; equal scores count half. NaN unless both labels are there. Sorts a copy.
 * COX_EINVAL: a label or score is NaN. COX_ENOMEM.
 */
int coxi_metric_auc(const float *labels, const float *scores, size_t n, double *ret);

#endif
