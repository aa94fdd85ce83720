/* See tasks.h. */
#include "tests/sim/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "data/cut.h"
#include "data/task.h"
#include "tests/sim/ledger.h"
#include "tests/sim/sched.h"
#include "worker/step_api.h"

enum { TASK_BYTES = 64 };

static const struct sim_plan *plan;

void sim_tasks_begin(const struct sim_plan *with)
{
    plan = with;
}

/* In place of the search in data/cut.c: one file of as many tasks as the plan says. */
int __wrap_coxi_files_find(const char *const *patterns, size_t n,
                           const struct coxi_cut *cut, struct coxi_files *ret)
{
    (void)n;
    *ret = (struct coxi_files){.names = strdup(patterns[0]),
                               .all = calloc(1, sizeof(*ret->all)),
                               .n = 1,
                               .n_tasks = plan->n_tasks,
                               .bytes = plan->n_tasks * cut->task_bytes};
    ret->all[0] = (struct coxi_cut_file){
        .name = ret->names, .mark = {.bytes = ret->bytes}, .n_tasks = ret->n_tasks};
    return 0;
}

/* ---- in the program */

static int create_variable(struct sim_tasks *tasks, uint32_t ps)
{
    char name[16];
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    (void)snprintf(name, sizeof(name), "t%u", ps);
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = (uint64_t)SIM_TASKS_MAX * SIM_SEGMENTS;
    return cox_variable_create(tasks->c, &spec, &tasks->counted[ps]);
}

static int create_rounds(struct sim_tasks *tasks)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.backups = plan->task_backups;
    spec.staleness = plan->task_staleness;
    return plan->task_round > 0 ? cox_rounds_create(tasks->c, &spec, &tasks->rounds)
                                : 0;
}

int sim_tasks_create(struct sim_tasks *tasks, struct cox_coordinator *c,
                     struct cox_module *module)
{
    static const char *const file = "/sim/tasks";
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    int r = 0;
    tasks->c = c;
    if (plan->n_tasks == 0) {
        return 0;
    }
    for (uint32_t i = 0; r == 0 && i < plan->n_ps; i++) {
        r = create_variable(tasks, i);
    }
    spec.name = "tasks";
    spec.files = &file;
    spec.n_files = 1;
    spec.format = COX_LIBSVM;
    spec.task_bytes = TASK_BYTES;
    spec.epochs = plan->n_epochs;
    spec.shuffle = plan->seed % 2;
    r = r == 0 ? cox_dataset_create(c, &spec, &tasks->dataset) : r;
    r = r == 0 ? create_rounds(tasks) : r;
    return r == 0 ? cox_function_get(module, "count_task", &tasks->step) : r;
}

static int give(const struct sim_tasks *tasks)
{
    return tasks->rounds == NULL
               ? cox_schedule_next(tasks->c, tasks->step, tasks->dataset, NULL, NULL)
               : cox_round_schedule_next(tasks->rounds, tasks->step, tasks->dataset,
                                         NULL, plan->task_round, NULL, NULL);
}

int sim_tasks_give(const struct sim_tasks *tasks, uint32_t number)
{
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    if (tasks->dataset == NULL || sim_hash(plan->seed ^ 2001, number) % 3 != 0) {
        return 0;
    }
    int r = cox_dataset_progress(tasks->c, tasks->dataset, &progress);
    return r == 0 && progress.todo > 0 ? give(tasks) : r;
}

int sim_tasks_finish(const struct sim_tasks *tasks)
{
    int r = tasks->dataset == NULL ? COX_EEOF : 0;
    while (r == 0) {
        r = give(tasks);
    }
    if (r != COX_EEOF) { /* tasks have failed, which is told once */
        r = give(tasks);
    }
    return r == COX_EEOF ? 0 : r;
}

/* ---- what is there */

/* Bits of the parts of a task: those that its step adds, and those that are there. */
struct parts {
    uint32_t planned;
    uint32_t there;
};

static struct parts
parts_of(const int64_t found[SIM_PS_MAX][SIM_TASKS_MAX * SIM_SEGMENTS],
         uint32_t position, const char *when)
{
    struct parts parts = {0, 0};
    int64_t of[SIM_ARGUMENTS];
    sim_plan_task(plan, position, of);
    for (uint32_t ps = 0; ps < plan->n_ps; ps++) {
        for (uint32_t s = 0; s < SIM_SEGMENTS; s++) {
            uint32_t bit = UINT32_C(1) << (ps * SIM_SEGMENTS + s);
            int64_t n = found[ps][position * SIM_SEGMENTS + s];
            bool planned = (of[s == 0 ? SIM_MASK : SIM_AFTER] >> ps & 1) != 0;
            parts.planned |= planned ? bit : 0;
            parts.there |= n != 0 ? bit : 0;
            if (n != 0 && (n != 1 || !planned)) {
                sim_violation("%s: segment %u of task %u is applied %lld times on ps "
                              "%u, not %d",
                              when, s, position, (long long)n, ps, planned);
            }
        }
    }
    return parts;
}

/* Compares with what the library has counted. */
static void compare(const int64_t found[SIM_PS_MAX][SIM_TASKS_MAX * SIM_SEGMENTS],
                    const struct cox_dataset_progress *progress, const char *when)
{
    uint64_t n = (uint64_t)plan->n_tasks * plan->n_epochs;
    uint64_t n_whole = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct parts parts = parts_of(found, i, when);
        n_whole += parts.there == parts.planned;
    }
    bool over = progress->epoch == plan->n_epochs;
    /* a replay that has failed leaves a task whole that counts as failed */
    bool fits = plan->brittle ? n_whole >= progress->done : n_whole == progress->done;
    if (over && (progress->done + progress->failed != n || !fits)) {
        sim_violation("%s: of %llu tasks %llu are whole, %llu done and %llu failed",
                      when, (unsigned long long)n, (unsigned long long)n_whole,
                      (unsigned long long)progress->done,
                      (unsigned long long)progress->failed);
    }
}

int sim_tasks_check(const struct sim_tasks *tasks, const char *when)
{
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    int64_t found[SIM_PS_MAX][SIM_TASKS_MAX * SIM_SEGMENTS] = {0};
    if (tasks->dataset == NULL) {
        return 0;
    }
    /* before the read: tasks that end later do not count, and none begins meanwhile */
    int r = cox_dataset_progress(tasks->c, tasks->dataset, &progress);
    for (uint32_t i = 0; r == 0 && i < plan->n_ps; i++) {
        r = cox_variable_read(tasks->c, tasks->counted[i], found[i], sizeof(found[i]));
    }
    if (r == 0) {
        compare((const int64_t(*)[SIM_TASKS_MAX * SIM_SEGMENTS]) found, &progress,
                when);
    }
    return r;
}

/* ---- in the step */

void sim_tasks_look(struct cox_step *step, int64_t ret[SIM_ARGUMENTS],
                    uint32_t *ret_failures)
{
    const struct cox_value *packed = coxi_step_task((struct coxi_attempt *)step);
    struct coxi_task task;
    if (packed == NULL ||
        coxi_task_unpack(packed->data, packed->shape[0], &task) != 0) {
        sim_violation("a step has no task");
        memset(ret, 0, SIM_ARGUMENTS * sizeof(*ret));
        *ret_failures = 0;
        return;
    }
    sim_plan_task(plan, (uint32_t)task.position, ret);
    *ret_failures = task.failures;
    coxi_task_fini(&task);
}
