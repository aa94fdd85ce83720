/* See dataset.h, coxswain/dataset.h: creates data sets, and goes on with those of a
 * checkpoint. */
#include "coordinator/datasets/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/closures/closure.h"
#include "coordinator/datasets/serve.h"
#include "data/formats.h"

int coxi_datasets_new(struct cox_coordinator *c)
{
    c->closures->handouts = &coxi_dataset_events;
    return coxi_served_new(c);
}

void coxi_datasets_free(struct cox_coordinator *c)
{
    coxi_served_free(c);
    while (c->datasets != NULL) {
        struct cox_dataset *dataset = c->datasets;
        c->datasets = dataset->next;
        coxi_dataset_free(dataset);
    }
}

struct cox_dataset *coxi_dataset_find(const struct cox_coordinator *c, const char *name)
{
    struct cox_dataset *dataset = c->datasets;
    while (dataset != NULL && strcmp(dataset->name, name) != 0) {
        dataset = dataset->next;
    }
    return dataset;
}

int coxi_dataset_make(struct cox_coordinator *c, struct coxi_dataset_parts *parts,
                      struct cox_dataset **ret)
{
    struct cox_dataset *dataset = calloc(1, sizeof(*dataset));
    char *name = strdup(parts->name);
    if (dataset == NULL || name == NULL) {
        free(dataset);
        free(name);
        return coxi_error_memory("a data set");
    }
    int r = coxi_tasks_init(&dataset->tasks, parts->n_tasks, parts->spec.epochs);
    if (r != 0) {
        free(dataset);
        free(name);
        return coxi_error(r, "data set '%s': %s", parts->name, coxi_error_text());
    }
    dataset->c = c;
    dataset->name = name;
    dataset->spec = parts->spec;
    dataset->packed = parts->packed;
    dataset->marks = parts->marks;
    dataset->n_marks = parts->n_marks;
    dataset->n_files = parts->n_files;
    coxi_mutex_init(&dataset->turn);
    *parts = (struct coxi_dataset_parts){0};
    *ret = dataset;
    return 0;
}

static void parts_fini(struct coxi_dataset_parts *parts)
{
    coxi_decoding_fini(&parts->spec.decoding);
    coxi_buffer_fini(&parts->packed);
    free(parts->marks);
}

void coxi_dataset_free(struct cox_dataset *dataset)
{
    if (dataset == NULL) {
        return;
    }
    coxi_tasks_fini(&dataset->tasks);
    while (dataset->adopted != NULL) {
        struct coxi_adopted_file *file = dataset->adopted;
        dataset->adopted = file->next;
        free(file);
    }
    coxi_mutex_fini(&dataset->turn);
    coxi_decoding_fini(&dataset->spec.decoding);
    coxi_buffer_fini(&dataset->packed);
    coxi_files_fini(&dataset->files);
    free(dataset->marks);
    free(dataset->first_failure);
    free(dataset->name);
    free(dataset);
}

/* ---- creating */

/* Packs the spec, and takes the columns' names from there: the caller's may go. */
static int own_spec(const struct coxi_spec *spec, struct coxi_dataset_parts *parts)
{
    int r = coxi_spec_pack(spec, &parts->packed);
    if (r == 0) {
        r = coxi_spec_unpack(parts->packed.data, parts->packed.len, &parts->spec);
    }
    if (r == 0) {
        parts->spec.epochs = spec->epochs;
        parts->spec.prefetch = spec->prefetch;
        parts->spec.failures_max = spec->failures_max;
        parts->spec.timeout_floor_ms = spec->timeout_floor_ms;
        parts->spec.failed_max = spec->failed_max;
    }
    return r;
}

/* Checks that the checkpoint's data set `found` is the one that is wanted. */
static int match(const struct cox_dataset *found,
                 const struct coxi_dataset_parts *wanted,
                 const struct coxi_files *files)
{
    char fields[400];
    coxi_spec_differ(&wanted->spec, &found->spec, fields, sizeof(fields));
    if (*fields != '\0') {
        return coxi_error(COX_ECONFLICT, "its spec differs: %s", fields);
    }
    int r = coxi_marks_check(files, found->marks, found->n_marks, found->n_files);
    if (r != 0) {
        return r;
    }
    if (wanted->spec.epochs < found->spec.epochs) {
        return coxi_error(COX_ECONFLICT,
                          "it has fewer epochs than before: %llu, not %llu",
                          (unsigned long long)wanted->spec.epochs,
                          (unsigned long long)found->spec.epochs);
    }
    return files->n_tasks == found->tasks.n
               ? 0
               : coxi_error(COX_ECONFLICT, "it has %llu tasks, not %llu",
                            (unsigned long long)files->n_tasks,
                            (unsigned long long)found->tasks.n);
}

/* The data set of the checkpoint belongs to this program from now on. */
static int attach(struct cox_dataset *found, const struct coxi_dataset_parts *wanted,
                  struct coxi_files *files) COXI_REQUIRES_C_LOCK
{
    struct coxi_tasks longer;
    int r = match(found, wanted, files);
    r = r == 0 ? coxi_tasks_init(&longer, files->n_tasks, wanted->spec.epochs) : r;
    if (r != 0) {
        return coxi_error(r,
                          "data set '%s' of the checkpoint: %.600s; give it the files "
                          "and the spec that it had, or take another name",
                          found->name, coxi_error_text());
    }
    found->tasks.end = longer.end;
    found->spec.epochs = wanted->spec.epochs;
    found->spec.prefetch = wanted->spec.prefetch;
    found->spec.failures_max = wanted->spec.failures_max;
    found->spec.timeout_floor_ms = wanted->spec.timeout_floor_ms;
    found->spec.failed_max = wanted->spec.failed_max;
    found->files = *files;
    *files = (struct coxi_files){0};
    found->created = true;
    return 0;
}

/* A manifest with more could not be read. */
static int check_number(const struct cox_coordinator *c) COXI_REQUIRES_C_LOCK
{
    size_t n = 0;
    for (const struct cox_dataset *dataset = c->datasets; dataset != NULL;
         dataset = dataset->next) {
        n++;
    }
    return n < COXI_DATASETS_MAX
               ? 0
               : coxi_error(COX_ELIMIT, "more than %d data sets", COXI_DATASETS_MAX);
}

/* Takes files and parts on success. */
static int add(struct cox_coordinator *c, struct coxi_dataset_parts *parts,
               struct coxi_files *files, struct cox_dataset **ret)
{
    struct cox_dataset *made = NULL;
    coxi_lock(&c->lock);
    struct cox_dataset *found = coxi_dataset_find(c, parts->name);
    int r = coxi_check_alive_locked(c);
    if (r == 0 && found != NULL && found->created) {
        r = coxi_error(COX_EEXIST, "there is a data set '%s' already", parts->name);
    } else if (r == 0 && found != NULL) {
        r = attach(found, parts, files);
        made = found;
    } else if (r == 0) {
        r = check_number(c);
        r = r == 0 ? coxi_dataset_make(c, parts, &made) : r;
        if (r == 0) {
            made->files = *files;
            *files = (struct coxi_files){0};
            made->created = true;
            made->next = c->datasets;
            c->datasets = made;
        }
    }
    coxi_unlock(&c->lock);
    if (r == 0) {
        *ret = made;
    }
    return r;
}

int cox_dataset_create(struct cox_coordinator *c, const struct cox_dataset_spec *spec,
                       struct cox_dataset **ret)
{
    struct cox_dataset_spec given;
    struct coxi_spec checked;
    struct coxi_files files = {0};
    if (c == NULL || spec == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_dataset_create needs a coordinator and a "
                                      "spec");
    }
    COXI_CALL(c);
    int r = coxi_struct_copy(&given, COXI_STRUCT_DATASET_SPEC, spec);
    r = r == 0 ? coxi_spec_check(&given, &checked) : r;
    if (r != 0) {
        return r;
    }
    const struct coxi_format *format = coxi_format_of(checked.decoding.format);
    if (format == NULL) {
        return coxi_error(COX_EINVAL, "data set '%s': this build does not read %s",
                          given.name, coxi_format_name(checked.decoding.format));
    }
    struct coxi_dataset_parts parts = {.name = given.name};
    const struct coxi_cut cut = {checked.task_bytes, format->splits};
    r = own_spec(&checked, &parts);
    if (r == 0) {
        r = coxi_files_find(given.files, given.n_files, &cut, &files);
        r = r == 0 ? r
                   : coxi_error(r, "data set '%s': %s", given.name, coxi_error_text());
    }
    if (r == 0) {
        r = coxi_marks_make(&files, &parts.marks, &parts.n_marks);
    }
    if (r == 0) {
        parts.n_files = files.n;
        parts.n_tasks = files.n_tasks;
        r = add(c, &parts, &files, ret);
    }
    parts_fini(&parts);
    coxi_files_fini(&files);
    return r;
}
