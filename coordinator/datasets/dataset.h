/*
 * Data sets of a coordinator (coxswain/dataset.h):
 *
 *   dataset.c   creates them
 *   spec.c      checks and compares their specs
 *   marks.c     notices other files, and files that have changed
 *   tasks.c     knows which tasks are to be given out, under way, or over
 *   positions.c those of them that are not given out for the first time
 *   next.c      gives tasks out to closures
 *   outcome.c   what the end of such a closure means for its task
 *   saved.c     data sets in checkpoints
 *   serve.c     gives workers bytes of files that only the client has
 *   progress.c  how far they are
 *
 * A closure carries its whole task among its arguments (data/task.h), so replay log,
 * backlog and second attempts do with it what they do with any other. Workers keep
 * nothing of a data set.
 *
 * Locks: `turn`, then c->lock. Turns of the loop never take `turn`, because its holder
 * may wait for room in the queue.
 */
#ifndef COXI_COORDINATOR_DATASETS_DATASET_H
#define COXI_COORDINATOR_DATASETS_DATASET_H

#include "coordinator/coordinator.h"
#include "coordinator/datasets/marks.h"
#include "coordinator/datasets/spec.h"
#include "coordinator/datasets/tasks.h"

enum { COXI_PACE_SECONDS = 16, COXI_FAILING_EPOCHS = 16 };

/* How much was done in each of the last seconds. */
struct coxi_pace {
    uint64_t begun_ms; /* 0: nothing was done yet */
    struct {
        uint64_t second;
        uint64_t tasks;
        uint64_t records;
    } slots[COXI_PACE_SECONDS];
};

/* Tasks that are over without having been done, and of which no call has told. */
struct coxi_untold_tasks {
    uint64_t failed;
    uint64_t skipped;
    int code; /* of the first one */
    char text[COXI_TEXT_MAX];
};

/* How many tasks of an epoch have failed for good. */
struct coxi_failed_tasks {
    uint64_t epoch;
    uint64_t n;
};

/* A file of the client that a task of an older client's closure has. */
struct coxi_adopted_file {
    struct coxi_adopted_file *next;
    char name[];
};

/* Why the data set gives out no more tasks. */
struct coxi_halt {
    int code; /* of the last task that has failed; 0: it goes on */
    char text[COXI_TEXT_MAX];
};

struct cox_dataset {
    struct cox_coordinator *c;
    struct cox_dataset *next; /* of the coordinator; guarded by c->lock */
    char *name;

    /* ---- set before `created`; then they stay as they are */

    struct coxi_spec spec;
    struct coxi_buffer packed; /* the spec; its columns' names are here */
    struct coxi_files files;   /* empty until it is created */
    struct coxi_manifest_mark *marks;
    size_t n_marks;
    uint64_t n_files;

    /* Held from taking a task until its closure has an id, so that positions rise with
     * ids. */
    struct coxi_mutex turn;

    /* ---- guarded by c->lock */

    bool created; /* by this client; otherwise the checkpoint has it */
    struct coxi_adopted_file *adopted; /* workers get these before it is created */
    struct coxi_tasks tasks;
    uint64_t epochs_over;               /* of which an event has told */
    struct cox_dataset_progress counts; /* those that only grow */
    struct coxi_untold_tasks untold;
    /* by the epoch's number, modulo */
    struct coxi_failed_tasks failed_tasks[COXI_FAILING_EPOCHS];
    struct coxi_halt halt;
    bool lacks_worker;   /* a task came back because no worker was there for it */
    char *first_failure; /* NULL: none */
    int first_code;
    double average_us; /* of the tasks that are done, moving */
    uint32_t n_samples;
    struct coxi_pace pace;
};

/* ---- dataset.c */

/* COX_ENOMEM. Frees all data sets, when no closure is left. */
int coxi_datasets_new(struct cox_coordinator *c);
void coxi_datasets_free(struct cox_coordinator *c);

/* The data set of that name; or NULL. */
struct cox_dataset *coxi_dataset_find(const struct cox_coordinator *c, const char *name)
    COXI_REQUIRES(c->lock);

/* Makes a data set that is in no list. `spec`, `packed` and `marks` are taken on
 * success. COX_ENOMEM. */
struct coxi_dataset_parts {
    const char *name;
    struct coxi_spec spec;
    struct coxi_buffer packed;
    struct coxi_manifest_mark *marks;
    size_t n_marks;
    uint64_t n_files;
    uint64_t n_tasks;
};

int coxi_dataset_make(struct cox_coordinator *c, struct coxi_dataset_parts *parts,
                      struct cox_dataset **ret);
void coxi_dataset_free(struct cox_dataset *dataset); /* takes NULL */

/* ---- outcome.c */

extern const struct coxi_handout_events coxi_dataset_events;

/* "FILE:OFFSET" of a task, or "task N" while the data set has no files. */
void coxi_dataset_tell_task(const struct cox_dataset *dataset, uint64_t position,
                            char *ret, size_t len);

/* Tells of the epochs that are over by now. */
void coxi_dataset_tell_epochs(struct cox_dataset *dataset) COXI_REQUIRES_C_LOCK;

/* ---- saved.c */

/* True if an older client's closure has a task with this file of the client. */
bool coxi_dataset_has_adopted(const struct cox_dataset *dataset,
                              const char *name) COXI_REQUIRES_C_LOCK;

/* ---- progress.c */

void coxi_pace_add(struct coxi_pace *pace, uint64_t now_ms, uint64_t records);

#endif
