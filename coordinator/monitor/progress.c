/* See progress.h. Data sets stay until cox_close, so the list may be walked with the lock
 * held for a step at a time only. */
#include "coordinator/monitor/progress.h"

#include <inttypes.h>
#include <stdbool.h>

#include "common/clock.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"
#include "coordinator/datasets/dataset.h"
#include "coxswain/dataset.h"

struct sum {
    size_t n; /* data sets */
    bool is_endless;
    bool has_eta;
    uint64_t done; /* tasks that are over */
    uint64_t total;
    uint64_t records;
    double records_rate;
    double eta_s; /* of the slowest */
    uint64_t epoch;
    uint64_t epochs;
};

static void add(struct sum *sum, const struct cox_dataset_progress *one)
{
    sum->n++;
    sum->is_endless = sum->is_endless || one->epochs == 0;
    sum->has_eta = sum->has_eta && one->eta_s >= 0;
    sum->done += one->done + one->failed + one->skipped;
    sum->total += one->tasks * one->epochs;
    sum->records += one->records;
    sum->records_rate += one->records_per_s;
    sum->eta_s = one->eta_s > sum->eta_s ? one->eta_s : sum->eta_s;
    sum->epoch = one->epoch;
    sum->epochs = one->epochs;
}

static struct cox_dataset *after(struct cox_coordinator *c,
                                 const struct cox_dataset *it)
{
    coxi_lock(&c->lock);
    struct cox_dataset *next = it == NULL ? c->datasets : it->next;
    coxi_unlock(&c->lock);
    return next;
}

static struct sum add_all(struct cox_coordinator *c)
{
    struct sum sum = {.has_eta = true};
    struct cox_dataset *dataset = NULL;
    while ((dataset = after(c, dataset)) != NULL) {
        struct cox_dataset_progress one = COX_DATASET_PROGRESS_INIT;
        if (cox_dataset_progress(c, dataset, &one) == 0) {
            add(&sum, &one);
        }
    }
    return sum;
}

double coxi_progress_eta_s(struct coxi_progress_pace *pace, uint64_t now_ms,
                           uint64_t settled, uint64_t total)
{
    if (settled == 0) {
        pace->n = 0; /* the pace is that since the first closure */
    }
    size_t at = pace->n++ % COXI_PROGRESS_SECONDS;
    pace->ms[at] = now_ms;
    pace->settled[at] = settled;
    size_t first =
        pace->n > COXI_PROGRESS_SECONDS ? pace->n % COXI_PROGRESS_SECONDS : 0;
    uint64_t n = settled - pace->settled[first];
    uint64_t ms = now_ms - pace->ms[first];
    if (settled >= total) {
        return 0;
    }
    return n > 0 && ms > 0 ? (double)(total - settled) * 1e-3 * (double)ms / (double)n
                           : -1;
}

static int add_total(struct cox_coordinator *c, struct coxi_progress_pace *pace,
                     uint64_t settled, struct coxi_buffer *out)
{
    coxi_lock(&c->lock);
    uint64_t total = c->counts.total;
    coxi_unlock(&c->lock);
    double eta_s = coxi_progress_eta_s(pace, coxi_now_ms(), settled, total);
    if (total == 0) {
        return 0;
    }
    int r = coxi_buffer_printf(out, ",\"total\":%" PRIu64, total);
    return r == 0 && eta_s >= 0 ? coxi_buffer_printf(out, ",\"eta_s\":%.1f", eta_s) : r;
}

static int add_data(struct cox_coordinator *c, struct coxi_buffer *out)
{
    struct sum sum = add_all(c);
    if (sum.n == 0) {
        return 0;
    }
    int r = coxi_buffer_printf(out,
                               ",\"data\":{\"done\":%" PRIu64 ",\"records\":%" PRIu64
                               ",\"records_rate\":%.3f",
                               sum.done, sum.records, sum.records_rate);
    if (r == 0 && !sum.is_endless) {
        r = coxi_buffer_printf(out, ",\"total\":%" PRIu64, sum.total);
    }
    if (r == 0 && !sum.is_endless && sum.has_eta) {
        r = coxi_buffer_printf(out, ",\"eta_s\":%.1f", sum.eta_s);
    }
    if (r == 0 && sum.n == 1) {
        r = coxi_buffer_printf(out, ",\"epoch\":%" PRIu64 ",\"epochs\":%" PRIu64,
                               sum.epoch, sum.epochs);
    }
    return r == 0 ? coxi_buffer_printf(out, "}") : r;
}

int coxi_progress_json(struct cox_coordinator *c, struct coxi_progress_pace *pace,
                       uint64_t settled, struct coxi_buffer *out)
{
    int r = add_total(c, pace, settled, out);
    return r == 0 ? add_data(c, out) : r;
}
