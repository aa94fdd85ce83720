/*
 * Gives tasks out: see dataset.h, coxswain/dataset.h.
 *
 * One thread at a time gives out the tasks of a data set. It takes a task, makes its
 * closure, and has the closure put into the queue; if that fails, it puts the task
 * back. Then nothing has happened.
 *
 * Threads: users'.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/call.h"
#include "coordinator/base/packing.h"
#include "coordinator/closures/schedule.h"
#include "coordinator/datasets/dataset.h"
#include "coordinator/workers/workers.h"
#include "data/task.h"

/* length of one wait; then the caller checks again */
enum { SLICE_MS = 1000 };

/* A call that gives out tasks. */
struct giving {
    const char *what; /* its name */
    struct cox_coordinator *c;
    struct cox_dataset *dataset;
    struct cox_call call; /* in this version's form */
    uint64_t limit;       /* only tasks below this position */
};

/* ---- taking a task */

/* The error that tells which tasks have failed or were skipped, once; or `r`. */
static int tell_failures(struct cox_dataset *dataset, int r) COXI_REQUIRES_C_LOCK
{
    struct coxi_untold_tasks *untold = &dataset->untold;
    unsigned long long failed = untold->failed;
    unsigned long long skipped = untold->skipped;
    if (failed + skipped == 0) {
        return r;
    }
    untold->failed = untold->skipped = 0;
    return coxi_error(untold->code,
                      "of the tasks of data set '%s' %llu failed and %llu %s skipped; "
                      "the first: %s",
                      dataset->name, failed, skipped, skipped == 1 ? "was" : "were",
                      untold->text);
}

/* True while it is pointless to give out a task that only waits for a worker again. */
static bool lacks_worker(struct cox_dataset *dataset) COXI_REQUIRES_C_LOCK
{
    const struct cox_coordinator *c = dataset->c;
    dataset->lacks_worker =
        dataset->lacks_worker && c->options.keep_going && c->workers->n_ready == 0;
    return dataset->lacks_worker;
}

/* Waits until a task is over or to be given out again, or a worker comes. */
static void wait_for_task(const struct giving *giving) COXI_REQUIRES_C_LOCK
{
    struct cox_dataset *dataset = giving->dataset;
    struct cox_coordinator *c = giving->c;
    const struct coxi_tasks *tasks = &dataset->tasks;
    size_t n = coxi_tasks_under_way(tasks);
    bool lacks = lacks_worker(dataset);
    uint64_t due_ms = coxi_positions_next_due(&tasks->waiting, giving->limit);
    struct timespec slice =
        coxi_deadline(lacks ? SLICE_MS : coxi_left_ms(due_ms, SLICE_MS));
    if (lacks) {
        coxi_call_why_locked(c, "no worker is ready; the last: %.300s",
                             c->workers->text);
    } else if (due_ms != COXI_NEVER_DUE) {
        coxi_call_why_locked(c, "tasks of data set '%s' rest after failures: %zu",
                             dataset->name, tasks->waiting.n);
    } else {
        coxi_call_why_locked(c,
                             "%zu task%s of data set '%s' are under way, and may fail",
                             n, coxi_s(n), dataset->name);
    }
    (void)coxi_wait_until(lacks ? &c->life.changed : &c->life.room, &c->lock, &slice);
}

/*
 * Finds a task below the limit that can be given out now; NULL: there is none, but one
 * may come. Takes `spare` if it returns that. COX_EEOF: all are over, or the error of
 * tell_failures.
 */
static int find(const struct giving *giving, struct coxi_handout *spare,
                struct coxi_handout **ret) COXI_REQUIRES_C_LOCK
{
    struct cox_dataset *dataset = giving->dataset;
    struct coxi_tasks *tasks = &dataset->tasks;
    uint64_t limit = giving->limit < tasks->end ? giving->limit : tasks->end;
    if (dataset->halt.code != 0) {
        return coxi_error(dataset->halt.code, "%s", dataset->halt.text);
    }
    if (!lacks_worker(dataset)) {
        *ret = coxi_tasks_take(tasks, limit, coxi_now_ms(), spare);
    }
    if (*ret == NULL && coxi_tasks_floor(tasks) >= limit) {
        return tell_failures(
            dataset,
            coxi_error(COX_EEOF, "every task of data set '%s' is over", dataset->name));
    }
    return 0;
}

/* Takes a task; waits for one while any may come. Errors: those of find. */
static int take(const struct giving *giving, struct coxi_handout *spare,
                struct coxi_handout **ret) COXI_REQUIRES_C_LOCK
{
    struct coxi_handout *taken = NULL;
    int r = coxi_check_alive_locked(giving->c);
    r = r == 0 ? find(giving, spare, &taken) : r;
    while (r == 0 && taken == NULL) {
        /* a failure elsewhere, or work of an older client, may be what it waits for */
        r = coxi_schedule_check(giving->c);
        r = r == 0 ? find(giving, spare, &taken) : r;
        if (r == 0 && taken == NULL) {
            wait_for_task(giving);
            r = coxi_check_alive_locked(giving->c);
            r = r == 0 ? find(giving, spare, &taken) : r;
        }
    }
    *ret = taken;
    return r;
}

/* ---- its closure */

/* Packs the task at the hand-out's position. */
static int pack(const struct cox_dataset *dataset, struct coxi_handout *handout,
                struct coxi_buffer *to)
{
    const struct coxi_spec *spec = &dataset->spec;
    uint64_t n = dataset->tasks.n;
    uint64_t epoch = handout->position / n;
    uint64_t place = handout->position % n;
    place = spec->shuffle ? coxi_order(n, spec->seed, epoch, place) : place;
    const struct coxi_cut_task cut = coxi_files_task(&dataset->files, place);
    const struct coxi_task task = {
        .dataset = dataset->name,
        .file = cut.file->name,
        .epoch = epoch,
        .place = place,
        .position = handout->position,
        .begin = cut.begin,
        .end = cut.end,
        .mark = cut.file->mark,
        .source = spec->source,
        .failures = handout->failures,
        .batch_size = spec->batch_size,
        .shuffle_window = spec->shuffle_window,
        .prefetch = spec->prefetch,
        .seed = coxi_task_seed(spec->seed, epoch, place),
        .decoding = spec->decoding,
    };
    handout->bytes = cut.bytes;
    return coxi_task_pack(&task, to);
}

/*
 * How long the step may run, in ms; 0: for ever. Ten times the average, doubled with
 * each failure, because the failure may have been that there was too little time.
 */
static uint32_t timeout_of(const struct giving *giving,
                           const struct coxi_handout *handout) COXI_REQUIRES_C_LOCK
{
    const struct cox_dataset *dataset = giving->dataset;
    int floor_ms = dataset->spec.timeout_floor_ms;
    double ms = dataset->average_us * 10 / 1000;
    if (giving->call.timeout_ms == 0 && floor_ms == -1) {
        return 0;
    }
    if (giving->call.timeout_ms != 0 || dataset->n_samples == 0) {
        return coxi_packing_timeout(giving->c, &giving->call);
    }
    ms = ms > floor_ms ? ms : floor_ms;
    ms *= (double)(1U << (handout->failures < 8 ? handout->failures : 8));
    return ms < (double)INT32_MAX ? (uint32_t)ms : (uint32_t)INT32_MAX;
}

/* Schedules a closure with the task; the task comes first among its arguments. */
static int schedule(const struct giving *giving, struct cox_function *function,
                    const struct coxi_schedule_task *task, struct cox_future **ret)
{
    struct coxi_buffer packed = {0};
    struct cox_value values[COXI_VALUES_MAX];
    struct cox_call call = giving->call;
    int r = pack(giving->dataset, task->handout, &packed);
    if (r == 0) {
        values[0] = (struct cox_value)COX_VECTOR(COXI_TASK_ARGUMENT, COX_U8, packed.len,
                                                 packed.data);
        if (call.n_args > 0) {
            memcpy(&values[1], call.args, call.n_args * sizeof(*values));
        }
        call.args = values;
        call.n_args++;
        r = coxi_schedule_task(giving->c, function, &call, task, ret);
    }
    coxi_buffer_fini(&packed);
    return r;
}

/* Waits for the data set's turn. */
static void take_turn(struct cox_coordinator *c, struct cox_dataset *dataset)
    COXI_ACQUIRES(dataset->turn) COXI_REQUIRES(c->lock)
{
    if (coxi_trylock(&dataset->turn)) {
        return;
    }
    coxi_call_why_locked(c, "another thread gives out tasks of data set '%s'",
                         dataset->name);
    coxi_unlock(&c->lock);
    coxi_lock(&dataset->turn);
    coxi_lock(&c->lock);
    coxi_call_why_locked(c, "%s", "");
}

/* Gives out one task; takes `spare` if *ret_used. Takes c->lock three times. */
static int give_with(const struct giving *giving, struct cox_function *function,
                     struct coxi_handout *spare, struct cox_future **ret,
                     bool *ret_used)
{
    struct cox_coordinator *c = giving->c;
    struct cox_dataset *dataset = giving->dataset;
    struct coxi_schedule_task task = {0};
    struct coxi_call call;
    call.c = c;
    call.what = giving->what;
    call.counted = true;
    coxi_lock(&c->lock);
    coxi_call_begin_locked(&call);
    take_turn(c, dataset);
    int r = take(giving, spare, &task.handout);
    bool taken = task.handout != NULL;
    *ret_used = task.handout == spare;
    task.timeout_ms = taken ? timeout_of(giving, task.handout) : 0;
    coxi_unlock(&c->lock);
    if (taken) {
        r = schedule(giving, function, &task, ret);
    }
    coxi_lock(&c->lock);
    if (taken && r != 0) {
        *ret_used =
            coxi_tasks_untake(&dataset->tasks, task.handout) == NULL && *ret_used;
    }
    /* before cox_close may free the data set */
    coxi_unlock(&dataset->turn);
    coxi_call_end_locked(&call);
    coxi_unlock(&c->lock);
    return r;
}

static int give(const struct giving *giving, struct cox_function *function,
                struct cox_future **ret)
{
    bool used = false;
    struct coxi_handout *spare = calloc(1, sizeof(*spare));
    if (spare == NULL) {
        return coxi_error_memory("a task");
    }
    spare->dataset = giving->dataset;
    int r = give_with(giving, function, spare, ret, &used);
    if (!used) {
        free(spare);
    }
    return r;
}

/* ---- calls of users */

static int check_call(struct giving *giving, const struct cox_call *call)
{
    size_t bytes;
    if (giving->c == NULL || giving->dataset == NULL ||
        giving->dataset->c != giving->c) {
        return coxi_error(COX_EINVAL, "%s needs a coordinator and a data set of it",
                          giving->what);
    }
    int r = coxi_packing_check(call, &giving->call, &bytes);
    if (r == 0 && giving->call.cursor != 0) {
        return coxi_error(COX_EINVAL,
                          "a call with a task has no cursor: checkpoints know which "
                          "tasks are done");
    }
    if (r == 0 && giving->call.keep != 0) {
        return coxi_error(COX_EINVAL, "a call with a task cannot keep its results");
    }
    return r == 0 && giving->call.n_args + giving->call.n_inputs >= COXI_VALUES_MAX
               ? coxi_error(COX_ELIMIT,
                            "a call with a task has at most %d arguments and inputs",
                            COXI_VALUES_MAX - 1)
               : r;
}

int cox_schedule_next(struct cox_coordinator *c, struct cox_function *function,
                      struct cox_dataset *dataset, const struct cox_call *call,
                      struct cox_future **ret)
{
    struct giving giving = {__func__, c, dataset, .limit = UINT64_MAX};
    int r = check_call(&giving, call);
    return r == 0 ? give(&giving, function, ret) : r;
}

/* The position behind the epoch that is under way; or an end (COX_EEOF, or the error of
 * failures that were not told). */
static int find_epoch(struct giving *giving)
{
    struct cox_dataset *dataset = giving->dataset;
    const struct coxi_tasks *tasks = &dataset->tasks;
    int r = 0;
    coxi_lock(&giving->c->lock);
    uint64_t floor = coxi_tasks_floor(tasks);
    if (dataset->halt.code != 0) {
        r = coxi_error(dataset->halt.code, "%s", dataset->halt.text);
    } else if (floor >= tasks->end) {
        r = tell_failures(dataset, coxi_error(COX_EEOF,
                                              "every epoch of data set '%s' "
                                              "is over",
                                              dataset->name));
    } else {
        giving->limit = (floor / tasks->n + 1) * tasks->n;
    }
    coxi_unlock(&giving->c->lock);
    return r;
}

int cox_schedule_epoch(struct cox_coordinator *c, struct cox_function *function,
                       struct cox_dataset *dataset, const struct cox_call *call)
{
    struct giving giving = {__func__, c, dataset, .limit = 0};
    int r = check_call(&giving, call);
    if (r != 0) {
        return r;
    }
    COXI_CALL(c);
    r = find_epoch(&giving);
    if (r != 0) {
        return r;
    }
    while (r == 0) {
        r = give(&giving, function, NULL);
    }
    return r == COX_EEOF ? 0 : r;
}
