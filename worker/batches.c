/* See batches.h. */
#include "worker/batches.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "coxswain/dataset.h"
#include "data/reader.h"
#include "data/sources.h"
#include "worker/client_files.h"
#include "worker/step_api.h"

struct coxi_batches {
    struct coxi_task task; /* its texts are in the closure's arguments */
    struct coxi_source source;
    struct coxi_reader *reader; /* NULL: the file could not be opened */
};

static int open_reader(const struct coxi_attempt *attempt,
                       const struct cox_value *packed, struct coxi_batches *batches)
{
    int r = packed->rank == 1 && packed->dtype == COX_U8
                ? coxi_task_unpack(packed->data, packed->shape[0], &batches->task)
                : coxi_error(COX_EPROTO, "malformed task");
    if (r == 0) {
        r = batches->task.source == COX_SOURCE_CLIENT
                ? coxi_source_open_client(&attempt->run->files, &batches->task,
                                          &batches->source)
                : coxi_source_open(batches->task.file, &batches->source);
    }
    return r == 0 ? coxi_reader_open(&batches->task, &batches->source, &batches->reader)
                  : r;
}

/* NULL: it has none. */
static void set_reader(struct coxi_running *running, struct coxi_reader *reader)
{
    coxi_lock(&running->reading);
    running->reader = reader;
    coxi_unlock(&running->reading);
}

static int begin(struct coxi_attempt *attempt, const struct cox_value *task)
{
    attempt->batches = calloc(1, sizeof(*attempt->batches));
    if (attempt->batches == NULL) {
        return coxi_error_memory("the records of a task");
    }
    int r = open_reader(attempt, task, attempt->batches);
    if (r == 0) {
        set_reader(attempt->running, attempt->batches->reader);
        r = coxi_attempt_check(attempt); /* it may have been cancelled before that */
    }
    return r;
}

void coxi_batches_cancel(struct coxi_running *running)
{
    coxi_lock(&running->reading);
    if (running->reader != NULL) {
        coxi_reader_cancel(running->reader);
    }
    coxi_unlock(&running->reading);
}

/* Notes why the task cannot be read. */
static int unread(struct coxi_attempt *attempt, int code)
{
    attempt->unread = code;
    return coxi_attempt_break(attempt, code);
}

int coxi_batches_next(struct coxi_attempt *attempt, struct cox_batch *ret)
{
    if (attempt->unread != 0) {
        return coxi_error(attempt->unread, "%s", attempt->broken_text);
    }
    const struct cox_value *task = coxi_step_task(attempt);
    if (task == NULL) {
        return coxi_error(COX_EINVAL, "the closure has no task of a data set: "
                                      "schedule it with cox_schedule_next");
    }
    int r = coxi_attempt_check(attempt);
    if (r != 0) {
        return r;
    }
    uint64_t begun_ns = coxi_now_ns();
    if (attempt->batches == NULL) {
        r = begin(attempt, task);
    }
    if (r == 0) {
        r = coxi_reader_next(attempt->batches->reader, ret);
    }
    coxi_add_since(&attempt->times.data_us, begun_ns);
    coxi_attempt_trace(attempt, begun_ns, COXI_TRACE_DATA);
    return r == 0 || r == COX_EEOF ? r : unread(attempt, r);
}

/* Packs what was read as the closure's last result. */
static int add_counts(struct coxi_attempt *attempt)
{
    struct coxi_reader_counts counts;
    struct coxi_buffer packed = {0};
    coxi_reader_counts(attempt->batches->reader, &counts);
    int r = coxi_counts_pack(&counts, &packed);
    if (r == 0) {
        const struct cox_value value =
            COX_VECTOR(COXI_TASK_RESULT, COX_U8, packed.len, packed.data);
        r = coxi_values_add(&attempt->results, &value);
    }
    coxi_buffer_fini(&packed);
    return r;
}

int coxi_batches_end(struct coxi_attempt *attempt)
{
    struct coxi_batches *batches = attempt->batches;
    if (batches == NULL) {
        return 0;
    }
    int r = 0;
    set_reader(attempt->running, NULL);
    if (batches->reader != NULL) {
        int changed = coxi_reader_end(batches->reader);
        if (changed != 0 && attempt->unread == 0) {
            (void)unread(attempt, changed);
        }
        r = add_counts(attempt);
    }
    coxi_reader_close(batches->reader);
    coxi_task_fini(&batches->task);
    free(batches);
    attempt->batches = NULL;
    return r;
}
