/*
 * What the end of a closure means for its task: see dataset.h.
 *
 *   done                             over, and counted
 *   cancelled, or no worker was there
 *                                    to be given out again
 *   too late for its round           to be given out again after a rest, or when no
 *                                    other is left: a task that is slow itself must not
 *                                    take a worker in each round
 *   its step could not run, or its commit had no room
 *                                    to be given out again after a rest
 *   failed, and nothing of it is applied
 *                                    the same, failures_max times; COX_BAD_SKIP_TASK
 *                                    and a damaged file: skipped
 *   failed, and a part of it is or may be applied
 *                                    failed: another closure would count that part
 *                                    twice. Of a round nothing is applied before all of it is
 *
 * Errors of these closures are not errors of the run (settle.c), except that there is
 * no worker.
 *
 * Threads: loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/round.h"
#include "coordinator/datasets/dataset.h"
#include "coordinator/datasets/serve.h"
#include "coordinator/workers/module.h"
#include "data/name.h"
#include "data/task.h"

enum outcome { DONE, GIVEN_BACK, LATE, NOT_TRIED, TRIED_AGAIN, FAILED, SKIPPED };

enum {
    REST_FIRST_MS = 100,
    REST_MAX_MS = 10000,
    MISHAPS_MAX = 64, /* about 9 minutes of rests; then the task has failed */
};

/* True if a part of the failed closure is applied, or may be. */
static bool leaves_trace(const struct coxi_closure *closure)
{
    int code = closure->future.code;
    return code == COX_EPARTIAL || code == COX_EDIVERGED || code == COX_EREPLAY ||
           closure->effect.unknown;
}

/* True if the error says nothing about the task. */
static bool is_elsewhere(const struct coxi_closure *closure)
{
    int code = closure->future.code;
    return closure->state == COXI_CANCELLED || code == COX_ENOWORKER ||
           code == COX_EPSLOST || code == COX_EFENCED || code == COX_ECLOSED;
}

/* True if the error is that something was missing, or had no room. Whoever reads a
 * record that is too long says COX_EFORMAT. */
static bool is_mishap(const struct coxi_closure *closure)
{
    int code = closure->future.code;
    return code == COX_ENOTREADY || code == COX_EAGAIN || code == COX_ELIMIT ||
           code == COX_ENOMEM || code == COX_EMODULE;
}

static bool is_damaged(const struct coxi_closure *closure)
{
    return closure->future.code == COX_EFORMAT || closure->future.code == COX_ECHECKSUM;
}

static enum outcome outcome_of(const struct coxi_closure *closure,
                               const struct coxi_handout *handout)
{
    const struct coxi_spec *spec = &handout->dataset->spec;
    if (closure->state == COXI_DONE_OK || closure->effect.applied) {
        return DONE;
    }
    if (leaves_trace(closure)) {
        return FAILED;
    }
    if (coxi_round_is_late(closure)) {
        return LATE;
    }
    if (is_elsewhere(closure)) {
        return GIVEN_BACK;
    }
    if (spec->decoding.on_bad_record == COX_BAD_SKIP_TASK && is_damaged(closure)) {
        return SKIPPED;
    }
    if (is_mishap(closure)) {
        return handout->mishaps < MISHAPS_MAX ? NOT_TRIED : FAILED;
    }
    return handout->failures + 1 < spec->failures_max ? TRIED_AGAIN : FAILED;
}

/* When a task may be given out again, of which `n` closures have failed or come late. */
static uint64_t due_after(uint32_t n)
{
    uint64_t rest_ms = (uint64_t)REST_FIRST_MS << (n < 8 ? n - 1 : 7);
    return coxi_now_ms() + (rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS);
}

/* ---- texts */

/* The cut of the task at a position. False: the files are not known, because the
 * checkpoint has the data set, and the program has not created it. */
static bool find_cut(const struct cox_dataset *dataset, uint64_t position,
                     struct coxi_cut_task *ret)
{
    const struct coxi_spec *spec = &dataset->spec;
    uint64_t n = dataset->tasks.n;
    if (n == 0 || dataset->files.n_tasks != n) {
        return false;
    }
    uint64_t place = position % n;
    place = spec->shuffle ? coxi_order(n, spec->seed, position / n, place) : place;
    *ret = coxi_files_task(&dataset->files, place);
    return true;
}

void coxi_dataset_tell_task(const struct cox_dataset *dataset, uint64_t position,
                            char *ret, size_t len)
{
    struct coxi_cut_task cut;
    if (find_cut(dataset, position, &cut)) {
        (void)snprintf(ret, len, "%.300s:%" PRIu64,
                       coxi_name_shown(cut.file->name).text, cut.begin);
    } else {
        (void)snprintf(ret, len, "task %" PRIu64, position);
    }
}

/* Where and why the closure's task failed. A text that does not name the file gets its
 * name, and the offset of the task. */
static void tell_reason(const struct coxi_closure *closure,
                        const struct coxi_handout *handout, char ret[COXI_TEXT_MAX])
{
    char where[COXI_TEXT_MAX];
    const char *text = coxi_future_text(&closure->future);
    coxi_dataset_tell_task(handout->dataset, handout->position, where, sizeof(where));
    const char *colon = strrchr(where, ':');
    char name[COXI_TEXT_MAX];
    (void)snprintf(name, sizeof(name), "%.*s", colon != NULL ? (int)(colon - where) : 0,
                   where);
    if (name[0] != '\0' && strstr(text, name) != NULL) {
        (void)snprintf(ret, COXI_TEXT_MAX, "%.500s", text);
    } else {
        (void)snprintf(ret, COXI_TEXT_MAX, "%.320s: %.180s", where, text);
    }
}

/* The first failure or bad record of the data set stays for cox_dataset_progress. */
static void note_first(struct cox_dataset *dataset, int code,
                       const char *text) COXI_REQUIRES_C_LOCK
{
    if (dataset->first_failure == NULL) {
        dataset->first_failure = strdup(text);
        dataset->first_code = code;
    }
}

/* ---- the end of a task */

/* Counts a task of the epoch that has failed for good; returns how many have. Tasks of
 * several epochs may be under way. One that is COXI_FAILING_EPOCHS behind another is not
 * counted any more. */
static uint64_t count_failed(struct cox_dataset *dataset,
                             uint64_t epoch) COXI_REQUIRES_C_LOCK
{
    struct coxi_failed_tasks *failed =
        &dataset->failed_tasks[epoch % COXI_FAILING_EPOCHS];
    if (failed->epoch < epoch) {
        *failed = (struct coxi_failed_tasks){epoch, 0};
    }
    return failed->epoch == epoch ? ++failed->n : 0;
}

/* A task has failed for good. If too many of its epoch have, the data set ends. */
static void note_failed(struct cox_dataset *dataset, uint64_t position, int code,
                        const char *text) COXI_REQUIRES_C_LOCK
{
    uint64_t epoch = position / dataset->tasks.n;
    uint64_t n = count_failed(dataset, epoch);
    if (n > 0 && n == dataset->spec.failed_max && dataset->halt.code == 0) {
        dataset->halt.code = code;
        (void)snprintf(dataset->halt.text, sizeof(dataset->halt.text),
                       "epoch %" PRIu64 " of %" PRIu64 " of data set '%s' has ended "
                       "early, because %" PRIu64 " of its tasks ha%s failed "
                       "(failed_max); the last: %.300s",
                       epoch + 1, dataset->spec.epochs, dataset->name, n,
                       n == 1 ? "s" : "ve", text);
    }
}

/* The task is over without having been done. */
static void give_up(struct cox_dataset *dataset, const struct coxi_closure *closure,
                    bool skipped, const char *text) COXI_REQUIRES_C_LOCK
{
    struct coxi_untold_tasks *untold = &dataset->untold;
    int code = closure->future.code;
    if (untold->failed + untold->skipped == 0) {
        untold->code = code;
        (void)snprintf(untold->text, sizeof(untold->text), "%s", text);
    }
    untold->skipped += skipped;
    untold->failed += !skipped;
    dataset->counts.skipped += skipped;
    dataset->counts.failed += !skipped;
    note_first(dataset, code, text);
    if (!skipped) {
        note_failed(dataset, closure->task->position, code, text);
    }
    coxi_event(dataset->c, COX_EVENT_TASK_FAILED,
               COXI_OF(.closure = closure->future.id, .error = code),
               "a task of data set '%s' %s: %.350s", dataset->name,
               skipped ? "is skipped" : "has failed for good", text);
}

static void note_done(struct cox_dataset *dataset,
                      const struct coxi_handout *handout) COXI_REQUIRES_C_LOCK
{
    struct cox_dataset_progress *counts = &dataset->counts;
    double weight =
        dataset->n_samples < COXI_SAMPLES ? 1.0 / ++dataset->n_samples : 0.1;
    dataset->average_us += weight * (handout->run_us - dataset->average_us);
    counts->done++;
    counts->records += handout->records;
    counts->bad_records += handout->bad_records;
    counts->bytes += handout->bytes;
    coxi_pace_add(&dataset->pace, coxi_now_ms(), handout->records);
}

/* It is tried again after a rest. */
static void retry(struct cox_dataset *dataset, const struct coxi_closure *closure,
                  struct coxi_handout *handout, const char *text) COXI_REQUIRES_C_LOCK
{
    handout->failures++;
    dataset->counts.retries++;
    coxi_tasks_return(&dataset->tasks, handout, due_after(handout->failures));
    coxi_event(dataset->c, COX_EVENT_TASK_RETRIED,
               COXI_OF(.closure = closure->future.id, .error = closure->future.code),
               "a task of data set '%s' failed, %" PRIu32 " of %" PRIu32
               " times, and is tried again: %.350s",
               dataset->name, handout->failures, dataset->spec.failures_max, text);
}

/* The same, but that does not count as a failure. */
static void put_off(struct cox_dataset *dataset, const struct coxi_closure *closure,
                    struct coxi_handout *handout, const char *text) COXI_REQUIRES_C_LOCK
{
    handout->mishaps++;
    coxi_tasks_return(&dataset->tasks, handout, due_after(handout->mishaps));
    coxi_event(dataset->c, COX_EVENT_TASK_RETRIED,
               COXI_OF(.closure = closure->future.id, .error = closure->future.code),
               "a task of data set '%s' could not be done, and is tried again: %.350s",
               dataset->name, text);
}

void coxi_dataset_tell_epochs(struct cox_dataset *dataset)
{
    const struct coxi_tasks *tasks = &dataset->tasks;
    uint64_t over = tasks->n > 0 ? coxi_tasks_floor(tasks) / tasks->n : 0;
    for (; dataset->epochs_over < over; dataset->epochs_over++) {
        coxi_event(dataset->c, COX_EVENT_EPOCH_DONE, COXI_OF(.level = 0),
                   "epoch %" PRIu64 " of %" PRIu64 " of data set '%s' is over; in all "
                   "epochs so far: %" PRIu64 " records, %" PRIu64 " tasks failed, "
                   "%" PRIu64 " skipped",
                   dataset->epochs_over + 1, dataset->spec.epochs, dataset->name,
                   dataset->counts.records, dataset->counts.failed,
                   dataset->counts.skipped);
    }
}

static void settled(struct coxi_closure *closure)
{
    struct coxi_handout *handout = closure->task;
    struct cox_dataset *dataset = handout->dataset;
    struct coxi_handout *freed = NULL;
    char text[COXI_TEXT_MAX] = "";
    coxi_lock(&dataset->c->lock);
    enum outcome outcome = outcome_of(closure, handout);
    if (outcome != DONE && outcome != GIVEN_BACK && outcome != LATE) {
        tell_reason(closure, handout, text);
    }
    switch (outcome) {
    case DONE:
        coxi_tasks_over(&dataset->tasks, handout);
        note_done(dataset, handout);
        break;
    case TRIED_AGAIN:
        retry(dataset, closure, handout, text);
        break;
    case NOT_TRIED:
        put_off(dataset, closure, handout, text);
        break;
    case GIVEN_BACK:
        dataset->lacks_worker =
            dataset->lacks_worker || closure->future.code == COX_ENOWORKER;
        coxi_tasks_return(&dataset->tasks, handout, 0);
        break;
    case LATE:
        handout->n_late = (uint8_t)(handout->n_late + (handout->n_late < UINT8_MAX));
        coxi_tasks_return(&dataset->tasks, handout, due_after(handout->n_late));
        handout->late = true;
        break;
    case FAILED:
    case SKIPPED:
        coxi_tasks_over(&dataset->tasks, handout);
        give_up(dataset, closure, outcome == SKIPPED, text);
        freed = handout;
        break;
    }
    coxi_dataset_tell_epochs(dataset);
    coxi_unlock(&dataset->c->lock);
    if (outcome != DONE) {
        closure->task = NULL;
    }
    free(freed);
}

/* ---- what attempts tell */

static void answered(struct coxi_closure *closure, uint32_t run_us,
                     const uint8_t *result, size_t len)
{
    struct coxi_handout *handout = closure->task;
    struct cox_dataset *dataset = handout->dataset;
    struct cox_value values[COXI_VALUES_MAX];
    struct coxi_reader_counts counts = {0};
    size_t n = 0;
    if (coxi_values_unpack(result, len, values, &n) != 0) {
        n = 0; /* whoever reads the results is told */
    }
    handout->run_us = run_us;
    /* the last one */
    if (n > 0 && values[n - 1].dtype == COX_U8 && values[n - 1].rank == 1 &&
        strcmp(values[n - 1].name, COXI_TASK_RESULT) == 0) {
        (void)coxi_counts_unpack(values[n - 1].data, values[n - 1].shape[0], &counts);
    }
    handout->records = counts.records;
    handout->bad_records = counts.bad < UINT32_MAX ? (uint32_t)counts.bad : UINT32_MAX;
    if (counts.bad > 0) {
        char where[COXI_TEXT_MAX];
        char text[COXI_TEXT_MAX];
        coxi_lock(&dataset->c->lock);
        coxi_dataset_tell_task(dataset, handout->position, where, sizeof(where));
        const char *colon = strrchr(where, ':');
        (void)snprintf(text, sizeof(text), "%.*s:%" PRIu64 ": %.200s",
                       colon != NULL ? (int)(colon - where) : (int)strlen(where), where,
                       counts.first_bad[0], counts.first_reason);
        note_first(dataset, COX_EFORMAT, text);
        coxi_unlock(&dataset->c->lock);
    }
}

const struct coxi_handout_events coxi_dataset_events = {
    .answered = answered,
    .settled = settled,
    .wanted = coxi_served_want,
};
