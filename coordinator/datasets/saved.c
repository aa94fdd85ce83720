/*
 * See saved.h.
 *
 * A manifest covers the closures up to its progress: each of them is applied in its
 * shards, or is in its backlog and runs again (docs/exactly-once.md, rule 28). So it
 * lists the tasks that no such closure has. Tasks that are over are not listed: they
 * lie below `next`, and are not in `again`.
 */
#include "coordinator/datasets/saved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/datasets/dataset.h"
#include "data/task.h"

/* ---- writing */

/* A copy; NULL: no memory. */
static void *copy_of(const void *bytes, size_t len)
{
    void *copy = malloc(len + 1);
    if (copy != NULL && len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static int save_one(const struct cox_dataset *dataset, uint64_t covered,
                    struct coxi_manifest_dataset *to) COXI_REQUIRES_C_LOCK
{
    const struct cox_dataset_progress *counts = &dataset->counts;
    const char *failure = dataset->first_failure;
    *to = (struct coxi_manifest_dataset){
        .name = strdup(dataset->name),
        .epochs = dataset->spec.epochs,
        .n_tasks = dataset->tasks.n,
        .n_files = dataset->n_files,
        .spec = copy_of(dataset->packed.data, dataset->packed.len),
        .spec_len = dataset->packed.len,
        .marks = copy_of(dataset->marks, dataset->n_marks * sizeof(*dataset->marks)),
        .n_marks = dataset->n_marks,
        .done = counts->done,
        .failed = counts->failed,
        .skipped = counts->skipped,
        .retries = counts->retries,
        .records = counts->records,
        .bad_records = counts->bad_records,
        .bytes = counts->bytes,
        .code = dataset->first_code,
        .failure = failure != NULL ? strdup(failure) : NULL,
    };
    if (to->name == NULL || to->spec == NULL || to->marks == NULL ||
        (failure != NULL && to->failure == NULL)) {
        return coxi_error_memory("a data set in a checkpoint");
    }
    return coxi_tasks_save(&dataset->tasks, covered, &to->next, &to->again);
}

int coxi_datasets_save(struct cox_coordinator *c, struct coxi_manifest *manifest)
{
    struct coxi_manifest_datasets datasets = {0};
    size_t n = 0;
    int r = 0;
    coxi_lock(&c->lock);
    for (const struct cox_dataset *dataset = c->datasets; dataset != NULL;
         dataset = dataset->next) {
        n++;
    }
    datasets.all = calloc(n + 1, sizeof(*datasets.all));
    if (datasets.all == NULL) {
        r = coxi_error_memory("data sets in a checkpoint");
    }
    for (const struct cox_dataset *dataset = c->datasets; r == 0 && dataset != NULL;
         dataset = dataset->next) {
        r = save_one(dataset, manifest->progress.closure, &datasets.all[datasets.n++]);
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        coxi_manifest_datasets_fini(&datasets);
        return r;
    }
    manifest->datasets = datasets;
    return 0;
}

void coxi_datasets_uncount(const struct coxi_closure *closure,
                           struct coxi_manifest *manifest)
{
    const struct coxi_handout *handout = closure->task;
    if (handout == NULL) {
        return;
    }
    for (size_t i = 0; i < manifest->datasets.n; i++) {
        struct coxi_manifest_dataset *dataset = &manifest->datasets.all[i];
        if (strcmp(dataset->name, handout->dataset->name) == 0) {
            dataset->done--;
            dataset->records -= handout->records;
            dataset->bad_records -= handout->bad_records;
            dataset->bytes -= handout->bytes;
        }
    }
}

/* ---- reading */

bool coxi_dataset_has_adopted(const struct cox_dataset *dataset, const char *name)
{
    const struct coxi_adopted_file *file = dataset->adopted;
    while (file != NULL && strcmp(file->name, name) != 0) {
        file = file->next;
    }
    return file != NULL;
}

/* Its counts and its tasks. */
static int load_state(const struct coxi_manifest_dataset *from, struct cox_dataset *to)
{
    struct cox_dataset_progress *counts = &to->counts;
    counts->done = from->done;
    counts->failed = from->failed;
    counts->skipped = from->skipped;
    counts->retries = from->retries;
    counts->records = from->records;
    counts->bad_records = from->bad_records;
    counts->bytes = from->bytes;
    to->first_code = from->code;
    to->first_failure = from->failure != NULL ? strdup(from->failure) : NULL;
    /* the older client may have told of them; this one has not */
    to->untold.failed = from->failed;
    to->untold.skipped = from->skipped;
    to->untold.code = from->code;
    (void)snprintf(to->untold.text, sizeof(to->untold.text), "%s",
                   from->failure != NULL ? from->failure : "");
    if (from->next > to->tasks.end) {
        return coxi_error(COX_EFORMAT, "it has given out more tasks than it has");
    }
    int r = coxi_tasks_load(&to->tasks, from->next, &from->again);
    struct coxi_handout *handout = coxi_positions_from(&to->tasks.waiting, 0);
    for (; handout != NULL;
         handout = coxi_positions_from(&to->tasks.waiting, handout->position + 1)) {
        handout->dataset = to;
    }
    to->epochs_over = to->tasks.n > 0 ? coxi_tasks_floor(&to->tasks) / to->tasks.n : 0;
    return r;
}

static int load_one(struct cox_coordinator *c, const struct coxi_manifest_dataset *from,
                    struct cox_dataset **ret)
{
    struct coxi_dataset_parts parts = {.name = from->name,
                                       .n_marks = from->n_marks,
                                       .n_files = from->n_files,
                                       .n_tasks = from->n_tasks};
    struct cox_dataset *dataset = NULL;
    parts.marks = copy_of(from->marks, from->n_marks * sizeof(*from->marks));
    int r = parts.marks == NULL ? coxi_error_memory("a data set") : 0;
    if (r == 0) {
        r = coxi_buffer_append_raw(&parts.packed, from->spec, from->spec_len);
    }
    if (r == 0) {
        r = coxi_spec_unpack(parts.packed.data, parts.packed.len, &parts.spec);
        parts.spec.epochs = from->epochs;
    }
    if (r == 0) {
        r = coxi_dataset_make(c, &parts, &dataset);
    }
    if (r == 0) {
        r = load_state(from, dataset);
    }
    if (r != 0) {
        coxi_decoding_fini(&parts.spec.decoding);
        coxi_buffer_fini(&parts.packed);
        free(parts.marks);
        coxi_dataset_free(dataset);
        return coxi_error(r, "data set '%s' of the checkpoint: %s", from->name,
                          coxi_error_text());
    }
    *ret = dataset;
    return 0;
}

int coxi_datasets_load(struct cox_coordinator *c, const struct coxi_manifest *manifest)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < manifest->datasets.n; i++) {
        struct cox_dataset *dataset = NULL;
        r = load_one(c, &manifest->datasets.all[i], &dataset);
        if (r == 0) {
            coxi_lock(&c->lock);
            dataset->next = c->datasets;
            c->datasets = dataset;
            coxi_unlock(&c->lock);
        }
    }
    return r;
}

/* The packed task among a closure's arguments, which may come from a file; len 0: it
 * has none. */
static int find_task(const struct coxi_closure *closure, const void **ret, size_t *len)
{
    struct cox_value values[COXI_VALUES_MAX];
    size_t n = 0;
    *len = 0;
    int r = coxi_values_unpack(closure->args, closure->args_len, values, &n);
    bool has = r == 0 && n > 0 && strcmp(values[0].name, COXI_TASK_ARGUMENT) == 0;
    if (has && (values[0].dtype != COX_U8 || values[0].rank != 1)) {
        return coxi_error(COX_EFORMAT, "a closure of the checkpoint has a malformed "
                                       "task");
    }
    if (has) {
        *ret = values[0].data;
        *len = values[0].shape[0];
    }
    return r == 0 ? 0
                  : coxi_error(COX_EFORMAT,
                               "a closure of the checkpoint has malformed arguments");
}

/* The closure may run before the program has created the data set: until then this tells
 * which of the client's files a worker may have. */
static int adopt_file(struct cox_dataset *dataset,
                      const char *name) COXI_REQUIRES_C_LOCK
{
    if (coxi_dataset_has_adopted(dataset, name)) {
        return 0;
    }
    size_t len = strlen(name) + 1;
    struct coxi_adopted_file *file = malloc(sizeof(*file) + len);
    if (file == NULL) {
        return coxi_error_memory("a file of a data set");
    }
    memcpy(file->name, name, len);
    file->next = dataset->adopted;
    dataset->adopted = file;
    return 0;
}

/* Puts the task of its data set under way. */
static int adopt(struct coxi_closure *closure, const struct coxi_task *task)
{
    struct cox_coordinator *c = closure->future.c;
    struct coxi_handout *handout = calloc(1, sizeof(*handout));
    if (handout == NULL) {
        return coxi_error_memory("a task");
    }
    coxi_lock(&c->lock);
    struct cox_dataset *dataset = coxi_dataset_find(c, task->dataset);
    bool fits = dataset != NULL && task->position < dataset->tasks.next &&
                !coxi_tasks_has_again(&dataset->tasks, task->position);
    int r =
        fits && task->source == COX_SOURCE_CLIENT ? adopt_file(dataset, task->file) : 0;
    if (fits && r == 0) {
        handout->dataset = dataset;
        handout->closure = closure;
        handout->position = task->position;
        handout->failures = task->failures;
        handout->bytes =
            (task->end == UINT64_MAX ? task->mark.bytes : task->end) - task->begin;
        closure->task = handout;
        closure->quiet = true;
        coxi_tasks_adopt(&dataset->tasks, handout);
    }
    coxi_unlock(&c->lock);
    if (fits && r == 0) {
        return 0;
    }
    free(handout);
    return r != 0 ? r
                  : coxi_error(COX_EFORMAT,
                               "a closure of the checkpoint has a task of data set "
                               "'%s' that the checkpoint lacks, or has twice",
                               task->dataset);
}

int coxi_datasets_adopt(struct coxi_closure *closure)
{
    struct coxi_task task;
    const void *bytes = NULL;
    size_t len = 0;
    int r = find_task(closure, &bytes, &len);
    if (r != 0 || len == 0) {
        return r;
    }
    r = coxi_task_unpack(bytes, len, &task);
    if (r == 0) {
        r = adopt(closure, &task);
        coxi_task_fini(&task);
    }
    return r;
}
