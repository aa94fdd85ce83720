/* Metrics as users see them: a small variable, and the meaning of its elements
 * (common/metric.h). variable.c creates and finds them. */
#include "common/metric.h"
#include "common/error.h"
#include "coordinator/closures/gate.h"
#include "coordinator/variables/content.h"

static int check(const struct cox_coordinator *c, const struct cox_metric *metric,
                 const char *who)
{
    return c != NULL && metric != NULL && metric->entry.c == c
               ? 0
               : coxi_error(COX_EINVAL, "%s needs a metric of this coordinator", who);
}

int cox_metric_read(struct cox_coordinator *c, struct cox_metric *metric,
                    double *ret_value, double *ret_weight)
{
    double numbers[COXI_METRIC_MAX];
    double value;
    double weight;
    int r = check(c, metric, "cox_metric_read");
    if (r == 0 && ret_value == NULL) {
        r = coxi_error(COX_EINVAL, "cox_metric_read needs a place for its value");
    }
    if (r != 0) {
        return r;
    }
    const struct coxi_variable *v = metric->entry.description;
    r = coxi_content_read(c, v, 0, v->shape[0], numbers);
    if (r == 0) {
        r = coxi_metric_read(v->metric, numbers, v->shape[0], &value, &weight);
    }
    if (r == 0) {
        *ret_value = value;
        if (ret_weight != NULL) {
            *ret_weight = weight;
        }
    }
    return r;
}

int cox_metric_reset(struct cox_coordinator *c, struct cox_metric *metric)
{
    int r = check(c, metric, "cox_metric_reset");
    if (r != 0) {
        return r;
    }
    const struct coxi_variable *v = metric->entry.description;
    r = coxi_content_update(c, &(struct coxi_content_write){v, COXI_OP_ASSIGN, 0,
                                                            v->shape[0],
                                                            coxi_metric_zeros});
    return r == 0 ? coxi_gate_reset(c, v) : r;
}

int cox_auc(const float *labels, const float *scores, size_t n, double *ret_auc)
{
    if (ret_auc == NULL || (n > 0 && (labels == NULL || scores == NULL))) {
        return coxi_error(COX_EINVAL, "cox_auc needs labels, scores and a place");
    }
    return coxi_metric_auc(labels, scores, n, ret_auc);
}
