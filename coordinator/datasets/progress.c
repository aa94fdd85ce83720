/* See dataset.h: how far a data set is, and how fast it goes. Any thread. */
#include "coxswain/dataset.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/datasets/dataset.h"

enum { MS = 1000, LATELY = COXI_PACE_SECONDS - 1 };

void coxi_pace_add(struct coxi_pace *pace, uint64_t now_ms, uint64_t records)
{
    uint64_t second = now_ms / MS;
    if (pace->begun_ms == 0) {
        pace->begun_ms = now_ms;
    }
    if (pace->slots[second % COXI_PACE_SECONDS].second != second) {
        pace->slots[second % COXI_PACE_SECONDS].second = second;
        pace->slots[second % COXI_PACE_SECONDS].tasks = 0;
        pace->slots[second % COXI_PACE_SECONDS].records = 0;
    }
    pace->slots[second % COXI_PACE_SECONDS].tasks++;
    pace->slots[second % COXI_PACE_SECONDS].records += records;
}

/* Tasks and records a second, in the last LATELY seconds. */
static void find_pace(const struct coxi_pace *pace, uint64_t now_ms, double *ret_tasks,
                      double *ret_records)
{
    uint64_t second = now_ms / MS;
    uint64_t tasks = 0;
    uint64_t records = 0;
    uint64_t elapsed = now_ms - pace->begun_ms;
    for (size_t i = 0; i < COXI_PACE_SECONDS; i++) {
        bool lately = pace->slots[i].second + LATELY > second;
        tasks += lately ? pace->slots[i].tasks : 0;
        records += lately ? pace->slots[i].records : 0;
    }
    double most = (LATELY - 1) * (double)MS + (double)(now_ms % MS);
    double ms = (double)elapsed < most ? (double)elapsed : most;
    bool known = pace->begun_ms != 0 && ms > 0;
    *ret_tasks = known ? (double)tasks * (double)MS / ms : 0;
    *ret_records = known ? (double)records * (double)MS / ms : 0;
}

static void fill_in(const struct cox_dataset *dataset,
                    struct cox_dataset_progress *ret) COXI_REQUIRES_C_LOCK
{
    const struct coxi_tasks *tasks = &dataset->tasks;
    double tasks_per_s;
    *ret = dataset->counts;
    ret->epochs = dataset->spec.epochs;
    ret->tasks = tasks->n;
    ret->bytes_total = dataset->files.bytes;
    ret->pending = coxi_tasks_under_way(tasks);
    ret->first_failure = dataset->first_failure != NULL ? dataset->first_failure : "";
    ret->eta_s = -1;
    if (tasks->n == 0) {
        ret->eta_s = 0;
        return;
    }
    ret->epoch = coxi_tasks_floor(tasks) / tasks->n;
    uint64_t end = ret->epoch < ret->epochs ? (ret->epoch + 1) * tasks->n : tasks->end;
    ret->todo = tasks->waiting.n + (end > tasks->next ? end - tasks->next : 0);
    find_pace(&dataset->pace, coxi_now_ms(), &tasks_per_s, &ret->records_per_s);
    if (tasks->end != UINT64_MAX) {
        double left =
            (double)(tasks->end - tasks->next + tasks->waiting.n + ret->pending);
        ret->eta_s = left == 0 ? 0 : tasks_per_s > 0 ? left / tasks_per_s : -1;
    }
}

int cox_dataset_progress(struct cox_coordinator *c, struct cox_dataset *dataset,
                         struct cox_dataset_progress *ret)
{
    struct cox_dataset_progress progress;
    if (c == NULL || dataset == NULL || ret == NULL || dataset->c != c) {
        return coxi_error(COX_EINVAL, "cox_dataset_progress needs a coordinator and a "
                                      "data set of it");
    }
    coxi_lock(&c->lock);
    fill_in(dataset, &progress);
    coxi_unlock(&c->lock);
    return coxi_struct_return(ret, COXI_STRUCT_DATASET_PROGRESS, &progress);
}
