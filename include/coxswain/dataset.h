/*
 * Data sets: files whose every record is trained on exactly once in each epoch,
 * whatever dies. Include <coxswain/coxswain.h> instead of this file.
 *
 *     const char *files[] = {"clicks/part-*.tsv"};
 *     struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
 *     spec.name = "clicks";
 *     spec.files = files;
 *     spec.n_files = 1;
 *     spec.format = COX_CRITEO;
 *     cox_dataset_create(c, &spec, &clicks);
 *     while ((r = cox_schedule_next(c, train, clicks, NULL, NULL)) == 0) { }
 *     ... COX_EEOF: every record has been trained on, in every epoch
 *
 * The files are cut into tasks. Each closure of cox_schedule_next gets one task; its
 * step takes the records in batches (cox_step_batch in coxswain/step.h). If the closure
 * fails, its task is given to another one. cox_round_schedule_next (coxswain/round.h)
 * gives tasks to the closures of a round. A client that goes on from a checkpoint goes
 * on with the tasks that the checkpoint lacks.
 */
#ifndef COXSWAIN_DATASET_H
#define COXSWAIN_DATASET_H

#include "coxswain/batch.h"
#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push /* functions and structs share names on purpose */
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct cox_call;
struct cox_coordinator;
struct cox_dataset;
struct cox_function;
struct cox_future;

/* Who reads the files. The client looks at them once, to know their sizes. */
enum cox_source {
    COX_SOURCE_WORKER = 0, /* the workers: paths, http://, https://, s3://BUCKET/KEY */
    COX_SOURCE_CLIENT = 1, /* this program, for workers that cannot reach the files */
};

/* What happens at a record that is damaged or malformed. */
enum cox_bad_record {
    /* its task fails, and is tried again like any other that fails */
    COX_BAD_FAIL = 0,
    COX_BAD_SKIP_RECORD = 1, /* it is left out and counted */
    /* no record of its task counts; it is not tried again. After a flush of the step, the
     * task has failed (COX_EPARTIAL), and what was flushed stays */
    COX_BAD_SKIP_TASK = 2,
};

#define COX_EPOCHS_FOREVER UINT64_MAX

struct cox_dataset_spec {
    size_t size;
    /* at most 127 bytes, without white space, control characters, quotes and
     * backslashes */
    const char *name;

    /* Paths, patterns with * ? [ ], or URLs. Files are taken in the order of their
     * names within each pattern, which leaves out names that end in .coxi or .part.
     * Names that end in .gz are inflated. */
    const char *const *files;
    size_t n_files;
    uint32_t source; /* enum cox_source */

    uint32_t format;  /* enum cox_format */
    uint32_t content; /* enum cox_content */
    /* COX_CSV, COX_EXAMPLE: what to take; other formats need none */
    const struct cox_column *columns;
    size_t n_columns;
    /* COX_CRITEO, COX_TEXT: hash keys modulo this (0: of 64 bits) */
    uint64_t buckets;
    /* COX_CSV, COX_CRITEO: 1: each file's first line is no record; in CSV it names the
     * columns */
    uint32_t header;
    char separator;         /* COX_CSV; 0: ',' */
    uint32_t on_bad_record; /* enum cox_bad_record */

    uint64_t epochs;     /* 0: 1 */
    uint32_t batch_size; /* records of a batch; 0: 256 */
    /* about how many bytes of a file a task has; 0: 4 MiB. A file that is compressed as
     * a whole is one task. */
    uint64_t task_bytes;

    /* The order depends on seed, epoch and files alone. */
    uint32_t shuffle;        /* 1: tasks come in random order, another in each epoch */
    uint32_t shuffle_window; /* records of a task that are mixed; 0: they are not */
    uint64_t seed;           /* of both */

    uint32_t prefetch; /* batches that a worker reads ahead; 0: 2 */

    /* How often a task may fail; 0: 3. Only its step and its records count: not that
     * no worker, no memory or no module was there, or that a ps or the client had no
     * room. Before a task that has failed is given out again it rests for 100 ms; twice
     * as long with each failure, at most 10 s. Others are given out meanwhile. */
    uint32_t failures_max;
    /* The time of a task is 10 times the average of those that are done, and at least
     * this; it doubles with each failure of the task. Before the first task is done it
     * is the options' step_timeout_ms. A call's own timeout_ms comes before all that.
     * 0: 60000; -1: no limit */
    int timeout_floor_ms;

    /* How many tasks of an epoch must have failed for good to end it early: then no
     * task of the data set is given out any more (cox_schedule_next). Failures before
     * the client was started do not count. 0: no number of them does */
    uint64_t failed_max;
};
#define COX_DATASET_SPEC_INIT COX_INIT(cox_dataset_spec)

/*
 * Finds the files and their sizes; reads no records. In a run that goes on from a
 * checkpoint, a data set of a name that the checkpoint has goes on where it was. All
 * data sets live until cox_close.
 *
 * COX_ENOENT: a pattern matches no file, or a file is missing; the text names it.
 * COX_EINVAL: the text says what is wrong with the spec; also if a file is listed twice,
 * by its name and a pattern or by two patterns (links are files of their own). COX_EIO. COX_EEXIST: this
 * client has created the name already. COX_ECONFLICT: the checkpoint has the data set
 * with other files, with a file that has changed since (the text names it), or with
 * another spec (epochs may be raised; prefetch, failures_max, failed_max and timeouts may
 * differ). COX_ELIMIT: there are 4096 data sets.
 */
COX_API int cox_dataset_create(struct cox_coordinator *c,
                               const struct cox_dataset_spec *spec,
                               struct cox_dataset **ret);

/*
 * Schedules a closure of `function` with the next task: like cox_schedule, with
 * `call`'s arguments (NULL: none; at most 63, no cursor, no keep). Tasks that are to be
 * given out again come first. Waits until there is a task: when all are given out, one
 * that is under way may still fail.
 *
 * Errors of these closures are not errors of the run (except COX_ENOWORKER): the data
 * set counts them, and gives the task out again. A closure that is cancelled, by its
 * future or by an error of another closure, is no failure of its task. A closure that
 * is applied in part (COX_EPARTIAL) ends its task as failed at once, because another
 * closure would count that part twice; an error of another closure does not cancel it,
 * but waits for its end.
 *
 * If no worker is there for a task, that is an error of the run (COX_ENOWORKER) as for
 * any other closure; with cox_options.keep_going the next call waits for a worker.
 *
 * COX_EEOF: every task of every epoch is done. COX_ESTEP and the other errors of
 * closures: the same, but some tasks have failed failures_max times or have been
 * skipped; the text says how many, and names the first one's file, offset and reason.
 * Then each further call returns COX_EEOF. If failed_max tasks of an epoch have failed,
 * this and each further call returns the error of the last of them, at once: tasks may
 * still be under way. Other errors: those of cox_schedule.
 */
COX_API int cox_schedule_next(struct cox_coordinator *c, struct cox_function *function,
                              struct cox_dataset *dataset, const struct cox_call *call,
                              struct cox_future **ret);

/*
 * Schedules all tasks of the epoch that is under way, or of the next one, and waits
 * until each of them is done or has failed. 0; COX_EEOF: there is no epoch left. If
 * tasks have failed or were skipped, it returns their error as cox_schedule_next does;
 * the epoch is over then, too, unless it has ended early (failed_max). Other errors:
 * those of cox_schedule_next.
 */
COX_API int cox_schedule_epoch(struct cox_coordinator *c, struct cox_function *function,
                               struct cox_dataset *dataset,
                               const struct cox_call *call);

/* How far a data set is. Records are counted when their task is done. */
struct cox_dataset_progress {
    size_t size;
    uint64_t epoch;       /* the first one that is not done, from 0 */
    uint64_t epochs;      /* of the spec */
    uint64_t tasks;       /* of one epoch */
    uint64_t todo;        /* of all epochs up to `epoch`'s end: not given out */
    uint64_t pending;     /* given out */
    uint64_t done;        /* in all epochs */
    uint64_t failed;      /* given up after failures_max failures */
    uint64_t skipped;     /* COX_BAD_SKIP_TASK */
    uint64_t retries;     /* failures after which a task was tried again */
    uint64_t records;     /* trained on, in all epochs */
    uint64_t bytes;       /* of the files, in all epochs */
    uint64_t bytes_total; /* of one epoch */
    uint64_t bad_records; /* left out (COX_BAD_SKIP_RECORD) */
    double records_per_s; /* lately */
    double eta_s;         /* until the last epoch's end; below 0: not known */
    /* the first bad record or failed task: "FILE:OFFSET: reason"; "" if there is none.
     * Valid until cox_close. */
    const char *first_failure;
};
#define COX_DATASET_PROGRESS_INIT COX_INIT(cox_dataset_progress)

COX_API int cox_dataset_progress(struct cox_coordinator *c, struct cox_dataset *dataset,
                                 struct cox_dataset_progress *ret);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
