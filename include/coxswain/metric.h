/*
 * Metrics: numbers that steps add to and the client reads. Include
 * <coxswain/coxswain.h> instead of this file.
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
 * A metric lies on one ps and changes at once, so a reading is of one moment. It is an
 * F64 variable like others: updates count exactly once, checkpoints hold it, and it
 * shares the names of variables.
 *
 *   COX_METRIC_SUM     steps add weight * value; it reads as the sum
 *   COX_METRIC_COUNT   steps add a weight; it reads as the sum of weights
 *   COX_METRIC_MEAN    steps add a value with a weight; it reads as the sum of
 *                      weight * value / the sum of weights, NaN if it is empty
 *   COX_METRIC_AUC     steps add labels and scores in [0, 1] (cox_step_metric_auc); it
 *                      reads as the area under the ROC curve, by the trapezoidal rule
 *                      over `buckets` buckets of score; NaN unless both labels have
 *                      come
 *
 * Steps add to the first three by cox_step_metric_add.
 *
 * The buckets of an AUC are equal steps of the logit, log(score / (1 - score)), from
 * -16 to 16. So the scores of rare positives, which are all near 0, are told apart as
 * well as others. With 1024 buckets the error of the AUC is at most .002 if the logits
 * have a standard deviation of .2 or more (docs/metrics.md). A program that has all
 * examples in one place can use cox_auc, which is exact.
 */
enum cox_metric_kind {
    COX_METRIC_SUM = 1,
    COX_METRIC_COUNT = 2,
    COX_METRIC_MEAN = 3,
    COX_METRIC_AUC = 4,
};

struct cox_metric_spec {
    size_t size;
    const char *name; /* As of a variable. */
    uint32_t kind;    /* enum cox_metric_kind */
    uint32_t buckets; /* Of an AUC: 2 to 1024. */
};
#define COX_METRIC_SPEC_INIT COX_INIT(cox_metric_spec)

/* Like cox_variable_create and cox_variable_get. */
COX_API int cox_metric_create(struct cox_coordinator *c,
                              const struct cox_metric_spec *spec,
                              struct cox_metric **ret);
COX_API int cox_metric_get(struct cox_coordinator *c, const char *name,
                           struct cox_metric **ret);

/*
 * cox_metric_read: the metric's value, and the sum of all weights if `ret_weight` is
 * not NULL. A COX_METRIC_SUM keeps no weights: 0. cox_metric_reset: makes the metric
 * empty, at once. COX_EPSLOST.
 *
 * A client that went on from a checkpoint may reset a metric before it schedules or
 * joins anything. Then calls that run again (cox_progress.rerun) leave nothing in the
 * metric: the calls that the program schedules wait for them. If the function of such a
 * call is not loaded, scheduling fails with COX_ENOENT.
 */
COX_API int cox_metric_read(struct cox_coordinator *c, struct cox_metric *metric,
                            double *ret_value, double *ret_weight);
COX_API int cox_metric_reset(struct cox_coordinator *c, struct cox_metric *metric);

/*
 * The exact area under the ROC curve of n examples, for programs that have all of them,
 * like an evaluator. An example is positive if its label is above 0.5. The area is the
 * share of pairs of a positive and a negative example in which the positive one has the
 * higher score; equal scores count half. NaN unless there are examples of both kinds.
 * Any thread. COX_EINVAL: a label or score is NaN. COX_ENOMEM.
 */
COX_API int cox_auc(const float *labels, const float *scores, size_t n,
                    double *ret_auc);

#ifdef __cplusplus
}
#endif
#endif
