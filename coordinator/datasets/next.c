/*
 * Gives tasks out: see dataset.h, coxswain/dataset.h, coxswain/round.h.
 *
 * One thread at a time gives out the tasks of a data set. It takes a task, or those of a
 * round, makes the closures, and has them put into the queue; if that fails, it puts the
 * tasks back. Then nothing has happened.
 *
 * A round has tasks of one epoch: those of the next one are taken when each task of this
 * one is over.
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
#include "coordinator/closures/round.h"
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
    struct cox_function *function;
    struct cox_call call;      /* in this version's form */
    uint64_t limit;            /* only tasks below this position */
    struct cox_rounds *rounds; /* NULL: each task is given out for itself */
    struct cox_future **futures;
    struct cox_future **ret_end;

    size_t n; /* tasks to take, at most */
    size_t n_taken;
    struct coxi_schedule_task *tasks; /* those that were taken */
    size_t n_spares;
    struct coxi_handout **spares; /* for tasks that are given out for the first time */
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

/* The position at which the tasks end that may be taken now. */
static uint64_t limit_of(const struct giving *giving) COXI_REQUIRES_C_LOCK
{
    const struct coxi_tasks *tasks = &giving->dataset->tasks;
    uint64_t limit = giving->limit < tasks->end ? giving->limit : tasks->end;
    if (giving->rounds == NULL) {
        return limit;
    }
    uint64_t floor = coxi_tasks_floor(tasks);
    return floor < limit ? (floor / tasks->n + 1) * tasks->n : limit;
}

/* Waits until a task is over or to be given out again, or a worker comes. */
static void wait_for_task(const struct giving *giving) COXI_REQUIRES_C_LOCK
{
    struct cox_dataset *dataset = giving->dataset;
    struct cox_coordinator *c = giving->c;
    const struct coxi_tasks *tasks = &dataset->tasks;
    size_t n = coxi_tasks_under_way(tasks) - giving->n_taken;
    bool lacks = lacks_worker(dataset);
    uint64_t due_ms = coxi_positions_next_due(&tasks->waiting, limit_of(giving));
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

/* Takes a task that can be given out now, if there is one. COX_EEOF: all are over, or the
 * error of tell_failures. */
static int take_now(struct giving *giving) COXI_REQUIRES_C_LOCK
{
    struct cox_dataset *dataset = giving->dataset;
    struct coxi_tasks *tasks = &dataset->tasks;
    struct coxi_handout *taken = NULL;
    uint64_t limit = limit_of(giving);
    if (dataset->halt.code != 0) {
        return coxi_error(dataset->halt.code, "%s", dataset->halt.text);
    }
    if (!lacks_worker(dataset)) {
        taken = coxi_tasks_take(tasks, limit, coxi_now_ms(),
                                giving->spares[giving->n_spares - 1]);
    }
    if (taken == NULL && coxi_tasks_floor(tasks) >= limit) {
        return tell_failures(
            dataset,
            coxi_error(COX_EEOF, "every task of data set '%s' is over", dataset->name));
    }
    if (taken != NULL) {
        giving->n_spares -= taken == giving->spares[giving->n_spares - 1];
        giving->tasks[giving->n_taken++] =
            (struct coxi_schedule_task){.handout = taken};
    }
    return 0;
}

/* True if the call has the tasks that it may have: as many as it wants, or, in a round,
 * all that are left of the epoch. */
static bool has_all(const struct giving *giving) COXI_REQUIRES_C_LOCK
{
    return giving->n_taken == giving->n ||
           (giving->n_taken > 0 &&
            !coxi_tasks_may_come(&giving->dataset->tasks, limit_of(giving)));
}

/* Takes the tasks; waits for each while it may come. Errors: those of take_now; then it
 * may have taken some. */
static int take(struct giving *giving) COXI_REQUIRES_C_LOCK
{
    int r = coxi_check_alive_locked(giving->c);
    while (r == 0 && !has_all(giving)) {
        size_t n = giving->n_taken;
        r = take_now(giving);
        if (r == 0 && giving->n_taken == n) {
            /* a failure elsewhere, or work of an older client, may be what it waits
             * for */
            r = coxi_schedule_check(giving->c);
            r = r == 0 ? take_now(giving) : r;
        }
        if (r == 0 && giving->n_taken == n && !has_all(giving)) {
            wait_for_task(giving);
            r = coxi_check_alive_locked(giving->c);
        }
    }
    return r;
}

/* Puts the tasks back, the last one first. */
static void put_back(struct giving *giving) COXI_REQUIRES_C_LOCK
{
    while (giving->n_taken > 0) {
        struct coxi_handout *spare = coxi_tasks_untake(
            &giving->dataset->tasks, giving->tasks[--giving->n_taken].handout);
        if (spare != NULL) {
            giving->spares[giving->n_spares++] = spare;
        }
    }
}

/* ---- their closures */

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

/* The call with a packed task, which comes first among its arguments. */
struct packed_call {
    struct coxi_buffer packed;
    struct cox_value values[COXI_VALUES_MAX];
    struct cox_call call;
};

/* The caller frees ret->packed, also after an error. */
static int pack_call(const struct giving *giving, struct coxi_handout *handout,
                     struct packed_call *ret)
{
    ret->packed = (struct coxi_buffer){0};
    ret->call = giving->call;
    int r = pack(giving->dataset, handout, &ret->packed);
    ret->values[0] = (struct cox_value)COX_VECTOR(COXI_TASK_ARGUMENT, COX_U8,
                                                  ret->packed.len, ret->packed.data);
    if (ret->call.n_args > 0) {
        memcpy(&ret->values[1], ret->call.args,
               ret->call.n_args * sizeof(*ret->values));
    }
    ret->call.args = ret->values;
    ret->call.n_args++;
    return r;
}

/* Schedules a closure with the only task. */
static int schedule_one(const struct giving *giving)
{
    struct packed_call with;
    int r = pack_call(giving, giving->tasks->handout, &with);
    if (r == 0) {
        r = coxi_schedule_task(giving->c, giving->function, &with.call, giving->tasks,
                               giving->futures);
    }
    coxi_buffer_fini(&with.packed);
    return r;
}

/* Makes the closure with task i. */
static int make_member(const struct coxi_round_plan *plan, size_t i, bool held,
                       struct coxi_closure **ret)
{
    const struct giving *giving = plan->arg;
    struct packed_call with;
    int r = pack_call(giving, giving->tasks[i].handout, &with);
    if (r == 0) {
        r = coxi_schedule_make_task(giving->c, giving->function, &with.call,
                                    &giving->tasks[i], held, ret);
    }
    coxi_buffer_fini(&with.packed);
    return r;
}

/* Schedules a round with the tasks. If there are fewer than its closures were to be,
 * there are fewer backups first. */
static int schedule_round(const struct giving *giving)
{
    uint32_t n = (uint32_t)giving->n_taken;
    uint32_t needed = (uint32_t)giving->n - giving->rounds->spec.backups;
    int r = coxi_round_schedule(&(struct coxi_round_plan){
        .rounds = giving->rounds,
        .n = n,
        .needed = needed < n ? needed : n,
        .make = make_member,
        .arg = giving,
        .tasks = giving->tasks,
        .futures = giving->futures,
        .ret_end = giving->ret_end,
    });
    for (size_t i = n; r == 0 && giving->futures != NULL && i < giving->n; i++) {
        giving->futures[i] = NULL;
    }
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

/* Gives the tasks out, with spares for all. Takes c->lock three times. */
static int give_with_spares(struct giving *giving)
{
    struct cox_coordinator *c = giving->c;
    struct cox_dataset *dataset = giving->dataset;
    struct coxi_call call;
    call.c = c;
    call.what = giving->what;
    call.counted = true;
    coxi_lock(&c->lock);
    coxi_call_begin_locked(&call);
    take_turn(c, dataset);
    int r = take(giving);
    for (size_t i = 0; i < giving->n_taken; i++) {
        giving->tasks[i].timeout_ms = timeout_of(giving, giving->tasks[i].handout);
    }
    coxi_unlock(&c->lock);
    if (r == 0) {
        r = giving->rounds != NULL ? schedule_round(giving) : schedule_one(giving);
    }
    coxi_lock(&c->lock);
    if (r != 0) {
        put_back(giving);
    }
    /* before cox_close may free the data set */
    coxi_unlock(&dataset->turn);
    coxi_call_end_locked(&call);
    coxi_unlock(&c->lock);
    return r;
}

/* Gives out giving->n tasks, for which there is room in its lists. */
static int give(struct giving *giving)
{
    int r = 0;
    giving->n_taken = giving->n_spares = 0;
    while (r == 0 && giving->n_spares < giving->n) {
        struct coxi_handout *spare = calloc(1, sizeof(*spare));
        r = spare == NULL ? coxi_error_memory("a task") : 0;
        if (r == 0) {
            spare->dataset = giving->dataset;
            giving->spares[giving->n_spares++] = spare;
        }
    }
    r = r == 0 ? give_with_spares(giving) : r;
    while (giving->n_spares > 0) {
        free(giving->spares[--giving->n_spares]);
    }
    return r;
}

/* Gives out one task. */
static int give_one(struct giving *giving)
{
    struct coxi_schedule_task task;
    struct coxi_handout *spare;
    giving->n = 1;
    giving->tasks = &task;
    giving->spares = &spare;
    int r = give(giving);
    giving->tasks = NULL; /* they are of this function */
    giving->spares = NULL;
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
    struct giving giving = {.what = __func__,
                            .c = c,
                            .dataset = dataset,
                            .function = function,
                            .limit = UINT64_MAX,
                            .futures = ret};
    int r = check_call(&giving, call);
    return r == 0 ? give_one(&giving) : r;
}

int cox_round_schedule_next(struct cox_rounds *rounds, struct cox_function *function,
                            struct cox_dataset *dataset, const struct cox_call *call,
                            size_t n, struct cox_future **futures,
                            struct cox_future **ret_end)
{
    int r = coxi_round_check(rounds, __func__, n);
    if (r == 0 && rounds->spec.deterministic != 0) {
        r = coxi_error(COX_EINVAL,
                       "deterministic rounds have no tasks of data sets: it "
                       "depends on the time which tasks are given out "
                       "again");
    }
    if (r != 0) {
        return r;
    }
    struct giving giving = {.what = __func__,
                            .c = rounds->c,
                            .dataset = dataset,
                            .function = function,
                            .limit = UINT64_MAX,
                            .rounds = rounds,
                            .futures = futures,
                            .ret_end = ret_end,
                            .n = n};
    r = check_call(&giving, call);
    if (r != 0) {
        return r;
    }
    giving.tasks = calloc(n, sizeof(*giving.tasks));
    giving.spares = calloc(n, sizeof(struct coxi_handout *));
    r = giving.tasks != NULL && giving.spares != NULL ? give(&giving)
                                                      : coxi_error_memory("a round");
    free(giving.tasks);
    free(giving.spares);
    return r;
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
    struct giving giving = {
        .what = __func__, .c = c, .dataset = dataset, .function = function};
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
        r = give_one(&giving);
    }
    return r == COX_EEOF ? 0 : r;
}
