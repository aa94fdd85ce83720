/*
 * Steps of data sets whose files have a row's number in each line. Until workers hand
 * records to steps, these read their task themselves.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/step.h>

struct task {
    const char *file;
    uint64_t epoch;
    uint64_t place;
    uint64_t begin;
    uint64_t end;
    uint64_t bytes;
};

static uint64_t number(const uint8_t **at)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            break;
        }
    }
    return n;
}

static const char *text(const uint8_t **at)
{
    const char *start = (const char *)*at;
    *at += strlen(start) + 1;
    return start;
}

/* Unpacks the argument that a data set adds (data/task.c). */
static int find_task(struct cox_step *step, struct task *ret)
{
    const struct cox_value *value = cox_step_argument(step, "\1task");
    if (value == NULL) {
        return cox_step_fail(step, 1, "there is no task");
    }
    const uint8_t *at = value->data;
    (void)number(&at); /* the version */
    (void)text(&at);   /* the data set */
    ret->file = text(&at);
    ret->epoch = number(&at);
    ret->place = number(&at);
    (void)number(&at); /* the position */
    ret->begin = number(&at);
    ret->end = number(&at);
    ret->bytes = number(&at);
    return 0;
}

static int64_t scalar(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* Adds 1 to the row of each line that begins in the task. With an argument `flush`, each
 * line is a segment of its own. */
static int read_lines(struct cox_step *step, const struct task *task, FILE *file)
{
    const int64_t one = 1;
    struct cox_variable *rows;
    char line[64];
    uint64_t at = task->begin > 0 ? task->begin - 1 : 0;
    int r = cox_step_variable(step, "rows", &rows);
    if (fseek(file, (long)at, SEEK_SET) != 0) {
        return cox_step_fail(step, 2, "cannot seek");
    }
    if (task->begin > 0 && fgets(line, sizeof(line), file) != NULL) {
        at += strlen(line);
    }
    while (r == 0 && at < task->end && fgets(line, sizeof(line), file) != NULL) {
        uint64_t row = strtoull(line, NULL, 10);
        at += strlen(line);
        r = cox_step_update(step, rows, COX_UPDATE_ADD, cox_rows_listed(&row, 1), &one);
        if (r == 0 && scalar(step, "flush") != 0) {
            r = cox_step_flush(step);
        }
    }
    return r;
}

/*
 * Counts its task's lines. Arguments, all optional: `fail_place`: the task at this place
 * (from 1) fails, after it has counted; `fail_epochs`: only in the first so many epochs;
 * `sleep_us`.
 */
static int count_lines(struct cox_step *step)
{
    struct task task;
    int r = find_task(step, &task);
    if (r != 0) {
        return r;
    }
    FILE *file = fopen(task.file, "re");
    if (file == NULL) {
        return cox_step_fail(step, 3, "cannot open %s", task.file);
    }
    r = read_lines(step, &task, file);
    (void)fclose(file);
    (void)usleep((useconds_t)scalar(step, "sleep_us"));
    int64_t epochs = scalar(step, "fail_epochs");
    bool fails = (int64_t)task.place + 1 == scalar(step, "fail_place") &&
                 (epochs == 0 || (int64_t)task.epoch < epochs);
    return r == 0 && fails ? cox_step_fail(step, 7, "place %" PRIu64, task.place) : r;
}

/* Fails in its first attempts: as long as the file that argument `gate` names is
 * there. */
static int fail_while(struct cox_step *step)
{
    const struct cox_value *gate = cox_step_argument(step, "gate");
    if (gate != NULL && access((const char *)gate->data, F_OK) == 0) {
        return cox_step_fail(step, 8, "the gate is shut");
    }
    return count_lines(step);
}

/* Returns the place of its task, as result `place`. */
static int tell_place(struct cox_step *step)
{
    struct task task;
    int r = find_task(step, &task);
    if (r != 0) {
        return r;
    }
    int64_t place = (int64_t)task.place;
    int64_t epoch = (int64_t)task.epoch;
    const struct cox_value results[] = {COX_SCALAR("place", COX_I64, &place),
                                        COX_SCALAR("epoch", COX_I64, &epoch)};
    r = cox_step_return(step, &results[0]);
    return r == 0 ? cox_step_return(step, &results[1]) : r;
}

/* Runs until it is cancelled, if its task is at `slow_place` (from 1) and the file that
 * argument `gate` names is there; otherwise counts. */
static int hang_while(struct cox_step *step)
{
    struct task task;
    const struct cox_value *gate = cox_step_argument(step, "gate");
    int r = find_task(step, &task);
    while (r == 0 && gate != NULL && access((const char *)gate->data, F_OK) == 0 &&
           (int64_t)task.place + 1 == scalar(step, "slow_place")) {
        if (cox_step_cancelled(step)) {
            return COX_ECANCELLED;
        }
        (void)usleep(1000);
    }
    return r == 0 ? count_lines(step) : r;
}

COX_STEPS(COX_STEP("count_lines", count_lines), COX_STEP("fail_while", fail_while),
          COX_STEP("tell_place", tell_place), COX_STEP("hang_while", hang_while));
