/* Steps of data sets whose records each have the number of a row as their only key. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/step.h>

static int64_t scalar(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* True while the file that argument `gate` names is there. */
static int is_gate_there(struct cox_step *step)
{
    const struct cox_value *gate = cox_step_argument(step, "gate");
    return gate != NULL && access((const char *)gate->data, F_OK) == 0;
}

/* Adds 1 to the row of each record. */
static int count_batch(struct cox_step *step, const struct cox_batch *batch)
{
    const int64_t one = 1;
    struct cox_variable *rows;
    int r = cox_step_variable(step, "rows", &rows);
    for (uint64_t i = 0; r == 0 && i < batch->n; i++) {
        const uint64_t *row = &batch->keys[batch->begin[i]];
        r = cox_step_update(step, rows, COX_UPDATE_ADD, cox_rows_listed(row, 1), &one);
    }
    return r;
}

/* Runs until it is cancelled, or the gate is gone. */
static int hang(struct cox_step *step, const char *gate)
{
    while (access(gate, F_OK) == 0) {
        if (cox_step_cancelled(step)) {
            return COX_ECANCELLED;
        }
        (void)usleep(1000);
    }
    return 0;
}

static int hang_at_gate(struct cox_step *step, int64_t epoch)
{
    char path[PATH_MAX];
    const struct cox_value *gate = cox_step_argument(step, "gate");
    if (gate == NULL || scalar(step, "holds") == 0) {
        return gate == NULL ? 0 : hang(step, (const char *)gate->data);
    }
    (void)snprintf(path, sizeof(path), "%s-%" PRId64 ".held", (const char *)gate->data,
                   epoch);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return COX_EIO;
    }
    (void)close(fd);
    path[strlen(path) - strlen(".held")] = '\0';
    return hang(step, path);
}

/*
 * Counts its task's records. Arguments, all optional: `fail_row`: the task that begins
 * with the row before this one fails, after it has counted; `fail_epochs`: only in the
 * first so many epochs; `slow_row`: the task that begins with the row before this one
 * hangs while the gate is there; `holds`: so does that task, in epoch N at GATE-N, and
 * makes the file GATE-N.held before; `flush`: each batch is a segment of its own.
 */
static int count_lines(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    int64_t first = -1;
    int64_t epoch = 0;
    int r = 0;
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        first = first < 0 ? (int64_t)batch.keys[0] : first;
        epoch = (int64_t)batch.epoch;
        r = count_batch(step, &batch);
        if (r == 0 && scalar(step, "flush") != 0) {
            r = cox_step_flush(step);
        }
    }
    r = r == COX_EEOF ? 0 : r;
    if (r == 0 && first + 1 == scalar(step, "slow_row")) {
        r = hang_at_gate(step, epoch);
    }
    int64_t epochs = scalar(step, "fail_epochs");
    int fails =
        first + 1 == scalar(step, "fail_row") && (epochs == 0 || epoch < epochs);
    return r == 0 && fails ? cox_step_fail(step, 7, "row %" PRId64, first) : r;
}

/* Counts its task's first batch; hangs as count_lines does, and leaves the others. */
static int count_first(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    int r = cox_step_batch(step, &batch);
    r = r == 0 ? count_batch(step, &batch) : r;
    return r == 0 ? hang_at_gate(step, (int64_t)batch.epoch) : r;
}

/* Fails while the gate is there; then counts. */
static int fail_while(struct cox_step *step)
{
    return is_gate_there(step) ? cox_step_fail(step, 8, "the gate is shut")
                               : count_lines(step);
}

/* Returns the first row of its task, as result `row`. */
static int tell_row(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    int r = cox_step_batch(step, &batch);
    if (r != 0) {
        return r;
    }
    int64_t row = (int64_t)batch.keys[0];
    const struct cox_value result = COX_SCALAR("row", COX_I64, &row);
    return cox_step_return(step, &result);
}

COX_STEPS(COX_STEP("count_lines", count_lines), COX_STEP("count_first", count_first),
          COX_STEP("fail_while", fail_while), COX_STEP("tell_row", tell_row));
