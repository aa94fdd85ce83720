/*
 * What steps add to metrics. All additions to a metric between two commits are one
 * update of its block, so no reader sees a part of them. If the step assigns to a
 * metric, or updates it as a variable in another way, that update ends, and later
 * additions begin another, because a ps applies updates in the order in which the step
 * made them.
 *
 * Threads: a slot. Cost: the additions, and a search among the metrics of the segment,
 * which are few.
 */
#include "worker/metric.h"

#include <math.h>

#include "common/error.h"
#include "common/metric.h"

/*
 * A metric that the segment adds to, and where its sums are in the payload for its ps.
 */
struct metric {
    const struct coxi_variable *variable;
    size_t at;
};

static struct coxi_target *target_of(struct coxi_attempt *attempt,
                                     const struct coxi_variable *v)
{
    return &attempt->targets[v->shards[0].ps]; /* metrics have one shard */
}

/* Begins the update that collects the additions; its sums are 0. */
static int begin(struct coxi_attempt *attempt, const struct coxi_variable *v,
                 size_t *ret_at)
{
    struct coxi_target *target = target_of(attempt, v);
    const struct metric metric = {v, target->update_payload.len};
    const struct coxi_update update = {v->id, COXI_OP_ADD, 0, v->shape[0]};
    int r =
        coxi_buffer_append(&target->update_payload, NULL, v->shape[0] * sizeof(double));
    if (r == 0) {
        r = coxi_buffer_append_raw(&target->updates, &update, sizeof(update));
    }
    if (r == 0) {
        r = coxi_buffer_append_raw(&attempt->metrics, &metric, sizeof(metric));
    }
    *ret_at = metric.at;
    return r;
}

void coxi_metric_end(struct coxi_attempt *attempt, const struct coxi_variable *v)
{
    struct metric *metrics = (struct metric *)(void *)attempt->metrics.data;
    size_t n = attempt->metrics.len / sizeof(*metrics);
    for (size_t i = 0; i < n; i++) {
        if (metrics[i].variable == v) {
            metrics[i] = metrics[n - 1];
            attempt->metrics.len -= sizeof(*metrics);
            return;
        }
    }
}

/*
 * The sums that the segment adds to a metric; valid until something else is collected.
 */
static int sums_of(struct coxi_attempt *attempt, const struct coxi_variable *v,
                   double **ret)
{
    const struct metric *metrics = (const struct metric *)(void *)attempt->metrics.data;
    size_t n = attempt->metrics.len / sizeof(*metrics);
    size_t i = 0;
    size_t at = 0;
    while (i < n && metrics[i].variable != v) {
        i++;
    }
    int r = 0;
    if (i < n) {
        at = metrics[i].at;
    } else {
        r = begin(attempt, v, &at);
    }
    *ret = (double *)(void *)(target_of(attempt, v)->update_payload.data + at);
    return r;
}

static int wrong_kind(const struct coxi_variable *v, const char *call)
{
    return coxi_error(COX_EINVAL, "'%s' is no metric that cox_step_metric_%s adds to",
                      v->name, call);
}

int coxi_metric_push(struct coxi_attempt *attempt, const struct coxi_variable *v,
                     double value, double weight)
{
    if (v->metric == COXI_METRIC_NONE || v->metric == COXI_METRIC_AUC) {
        return wrong_kind(v, "add");
    }
    double *sums;
    int r = sums_of(attempt, v, &sums);
    if (r == 0) {
        sums[0] += v->metric == COXI_METRIC_COUNT ? weight : weight * value;
    }
    if (r == 0 && v->metric == COXI_METRIC_MEAN) {
        sums[1] += weight;
    }
    return r;
}

int coxi_metric_push_auc(struct coxi_attempt *attempt, const struct coxi_variable *v,
                         const float *labels, const float *scores, size_t n)
{
    if (v->metric != COXI_METRIC_AUC) {
        return wrong_kind(v, "auc");
    }
    for (size_t i = 0; i < n; i++) {
        if (isnan(scores[i])) {
            return coxi_error(COX_EINVAL, "metric '%s': score %zu is NaN", v->name, i);
        }
        if (isnan(labels[i])) {
            return coxi_error(COX_EINVAL, "metric '%s': label %zu is NaN", v->name, i);
        }
    }
    double *positives;
    int r = sums_of(attempt, v, &positives);
    size_t n_buckets = v->shape[0] / 2;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t bucket = coxi_metric_bucket((double)scores[i], n_buckets);
        positives[(labels[i] > 0.5F ? 0 : n_buckets) + bucket] += 1;
    }
    return r;
}
