/*
 * Metrics: numbers that steps add to and the client reads. Include <coxswain/coxswain.h>
 * instead of this file.
 */
#ifndef COXSWAIN_METRIC_H
#define COXSWAIN_METRIC_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;
struct cox_metric;

/*
 * All that a metric holds lies on one ps and changes at once, so a reading is of one moment. It
 * is a variable like others: exactly once, in checkpoints, named like them, F64.
 *
 *   kind               a step adds (cox_step_metric_add)       it reads as
 *   COX_METRIC_SUM     value, weight: weight * value           the sum
 *   COX_METRIC_COUNT   weight                                  the sum of weights
 *   COX_METRIC_MEAN    value, weight                           sum of weight * value / sum of
 *                                                              weights; NaN of nothing
 *   COX_METRIC_AUC     label 0 or 1, score in [0, 1]           area under the ROC curve by
 *                      (cox_step_metric_auc)                   the trapezoidal rule over
 *                                                              `buckets` buckets of score;
 *                                                              NaN unless both labels have
 *                                                              come
 *
 * The buckets of an AUC are equal steps of log(score / (1 - score)), from -16 to 16, so that
 * rare positives, whose scores are all near 0, are told apart as well as frequent ones. Of
 * 1024 buckets the AUC is within .002 of the exact one where that number has a deviation of .2
 * or more (docs/metrics.md); cox_auc is exact for examples in one place.
 */
enum cox_metric_kind {
    COX_METRIC_SUM = 1,
    COX_METRIC_COUNT = 2,
    COX_METRIC_MEAN = 3,
    COX_METRIC_AUC = 4,
};

struct cox_metric_spec {
    size_t size;
    const char *name;
    uint32_t kind;    /* enum cox_metric_kind */
    uint32_t buckets; /* of an AUC: 2 to 1024; 0: 1024 */
};
#define COX_METRIC_SPEC_INIT {sizeof(struct cox_metric_spec), NULL, 0, 0}

/* As cox_variable_create and _get. */
COX_API int cox_metric_create(struct cox_coordinator *c,
                              const struct cox_metric_spec *spec,
                              struct cox_metric **ret);
COX_API int cox_metric_get(struct cox_coordinator *c, const char *name,
                           struct cox_metric **ret);

/* What it reads as now, and (where `ret_weight` is not NULL) the sum of all weights: of a
 * COX_METRIC_SUM 0, which keeps none. Reset: back to nothing, at once. A client that went on from
 * a checkpoint, and resets before it has scheduled or joined, finds nothing in the metric of what
 * runs again (cox_progress.rerun): what it schedules waits for that, and is COX_ENOENT where the
 * function of a call that runs again is not loaded. COX_EPSLOST. */
COX_API int cox_metric_read(struct cox_coordinator *c, struct cox_metric *metric,
                            double *ret_value, double *ret_weight);
COX_API int cox_metric_reset(struct cox_coordinator *c, struct cox_metric *metric);

/*
 * The exact area under the ROC curve of n examples (label: positive above 0.5), for programs
 * that have them all, like an evaluator: the share of pairs of a positive and a negative
 * example in which the positive one has the higher score; equal scores count half. NaN unless
 * both labels are there. Any thread. COX_EINVAL: a label or score is NaN. COX_ENOMEM.
 */
COX_API int cox_auc(const float *labels, const float *scores, size_t n,
                    double *ret_auc);

#ifdef __cplusplus
}
#endif
#endif
