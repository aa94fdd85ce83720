/*
 * The evaluator: follows a checkpoint directory, loads checkpoints
 * (checkpoint/checkpoint) and answers look-ups from the open shards. It needs
 * no coordinator and no daemon. eval_log.c writes its results. Single-threaded: one
 * thread at a time uses an evaluator.
 *
 * The keys of a table are indexed once when the checkpoint is loaded, if the table is
 * wanted; rows stay in the files. A checkpoint that cannot be loaded is tried again until
 * there is a newer one, because the last checkpoint must not be lost after one failure.
 */
#include "evaluator/evaluator.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/generation.h"
#include "checkpoint/latest.h"
#include "checkpoint/place.h"
#include "checkpoint/row_index.h"
#include "common/clock.h"
#include "common/defaults.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/patience.h"
#include "common/structs.h"

enum {
    STORE_POLL_MS = 1000, /* a store is not asked ten times a second */
    LOOK_MS = 5000,       /* a store has so long for a look, also if time is over */
};

struct loaded {
    struct coxi_checkpoint *checkpoint;
    struct coxi_row_index *tables; /* by index in the manifest's list */
};

struct cox_evaluator {
    char *dir;
    struct cox_evaluator_options options; /* with copies of the names */
    struct loaded *loaded;
    uint64_t last; /* number of the checkpoint last handed out */
    uint64_t n_loaded;
    bool final;                  /* the last checkpoint says that it is the final one */
    struct coxi_session session; /* the client that wrote that checkpoint */
    /* since the last successful load: */
    bool failing;
    /* the number of the checkpoint that failed last; 0: LATEST failed */
    uint64_t failed;
    uint64_t older;    /* the newest complete checkpoint below it */
    uint64_t since_ms; /* time of the first failure */
};

const char *coxi_evaluator_dir(const struct cox_evaluator *evaluator)
{
    return evaluator->dir;
}

uint64_t coxi_evaluator_loaded(const struct cox_evaluator *evaluator)
{
    return evaluator->loaded != NULL ? evaluator->last : 0;
}

const struct cox_evaluator_options *
coxi_evaluator_options(const struct cox_evaluator *evaluator)
{
    return &evaluator->options;
}

/* ---- loading */

static void loaded_free(struct loaded *loaded)
{
    if (loaded == NULL) {
        return;
    }
    for (uint32_t i = 0;
         loaded->tables != NULL && i < loaded->checkpoint->manifest->n_variables; i++) {
        coxi_row_index_fini(&loaded->tables[i]);
    }
    free(loaded->tables);
    coxi_checkpoint_close(loaded->checkpoint);
    free(loaded);
}

static bool is_wanted(const struct cox_evaluator *evaluator, const char *name)
{
    const struct cox_evaluator_options *o = &evaluator->options;
    bool wanted = o->variables == NULL;
    for (size_t i = 0; !wanted && i < o->n_variables; i++) {
        wanted = coxi_name_matches(o->variables[i], name);
    }
    return wanted;
}

static int load_into(const struct cox_evaluator *evaluator, const char *path,
                     struct loaded *loaded)
{
    int r = coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &loaded->checkpoint);
    if (r != 0) {
        return r;
    }
    const struct coxi_manifest *m = loaded->checkpoint->manifest;
    loaded->tables = calloc(m->n_variables + 1, sizeof(*loaded->tables));
    if (loaded->tables == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (uint32_t i = 0; r == 0 && i < m->n_variables; i++) {
        if (m->variables[i]->kind == COXI_KIND_TABLE &&
            is_wanted(evaluator, m->variables[i]->name)) {
            r = coxi_row_index_init(&loaded->tables[i], loaded->checkpoint,
                                    m->variables[i]);
        }
    }
    return r;
}

static int load(const struct cox_evaluator *evaluator, uint64_t number,
                struct loaded **ret)
{
    char path[PATH_MAX];
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, evaluator->dir, number);
    if (r == 0) {
        r = load_into(evaluator, path, loaded);
    }
    if (r != 0) {
        loaded_free(loaded);
        return r;
    }
    *ret = loaded;
    return 0;
}

/* ---- opening and closing */

/* Replaces the names that `o` points to by copies. */
static int copy_names(struct cox_evaluator_options *o)
{
    const char *const *names = o->variables;
    o->variables = NULL;
    if (names == NULL) {
        return 0;
    }
    const char **copies = calloc(o->n_variables + 1, sizeof(char *));
    o->variables = copies;
    for (size_t i = 0; copies != NULL && i < o->n_variables; i++) {
        if (names[i] == NULL) {
            return coxi_error(COX_EINVAL,
                              "cox_evaluator_options.variables[%zu] is NULL", i);
        }
        copies[i] = strdup(names[i]);
        if (copies[i] == NULL) {
            return coxi_error_memory("an evaluator");
        }
    }
    return copies != NULL ? 0 : coxi_error_memory("an evaluator");
}

void cox_evaluator_close(struct cox_evaluator *evaluator)
{
    if (evaluator == NULL) {
        return;
    }
    const struct cox_evaluator_options *o = &evaluator->options;
    for (size_t i = 0; o->variables != NULL && i < o->n_variables; i++) {
        free((void *)(uintptr_t)o->variables[i]);
    }
    free((void *)(uintptr_t)o->variables);
    loaded_free(evaluator->loaded);
    free(evaluator->dir);
    free(evaluator);
}

/* COX_EINVAL: the environment is wrong. */
static int fill_in(struct cox_evaluator_options *o)
{
    const struct coxi_patience_field waits[] = {
        {"COX_EVALUATOR_FIRST_TIMEOUT_MS", &o->first_timeout_ms, false},
        {"COX_EVALUATOR_IDLE_TIMEOUT_MS", &o->idle_timeout_ms, false},
    };
    int r = coxi_patience_fill(waits, sizeof(waits) / sizeof(*waits));
    o->poll_ms = o->poll_ms > 0 ? o->poll_ms : 0;
    COXI_DEFAULTS_EVALUATOR_OPTIONS(COXI_FILL_IN)
    return r;
}

int cox_evaluator_open(const char *dir, const struct cox_evaluator_options *options,
                       struct cox_evaluator **ret)
{
    struct cox_evaluator_options o = COX_EVALUATOR_OPTIONS_INIT;
    char taken[PATH_MAX];
    if (dir == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL,
                          "cox_evaluator_open needs a checkpoint directory");
    }
    int r = coxi_place_take(dir, taken);
    r = r == 0 && options != NULL
            ? coxi_struct_copy(&o, COXI_STRUCT_EVALUATOR_OPTIONS, options)
            : r;
    if (r != 0) {
        return r;
    }
    struct cox_evaluator *evaluator = calloc(1, sizeof(*evaluator));
    if (evaluator == NULL) {
        return coxi_error_memory("an evaluator");
    }
    if (o.poll_ms <= 0 && coxi_place_in_store(dir)) {
        o.poll_ms = STORE_POLL_MS;
    }
    r = copy_names(&o); /* first, because every failure below frees the names in `o` */
    r = r == 0 ? fill_in(&o) : r;
    evaluator->options = o;
    evaluator->dir = strdup(taken);
    if (r == 0 && evaluator->dir == NULL) {
        r = coxi_error_memory("an evaluator");
    }
    if (r != 0) {
        cox_evaluator_close(evaluator);
        return r;
    }
    *ret = evaluator;
    return 0;
}

/* ---- following the directory */

/* Finds the first complete checkpoint above `above`, up to `latest`; 0: there is
 * none. */
static int first_above(const char *dir, uint64_t above, uint64_t latest, uint64_t *ret)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t found = 0;
    int r = coxi_checkpoints_list(dir, &all, &n);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; found == 0 && i < n; i++) {
        if (!all[i].unfinished && all[i].number > above && all[i].number <= latest) {
            found = all[i].number;
        }
    }
    free(all);
    *ret = found;
    return 0;
}

/* Chooses the checkpoint to load now; 0: none is newer than the last. */
static int choose(const struct cox_evaluator *evaluator, uint64_t *ret)
{
    uint64_t latest = 0;
    uint64_t newer = 0;
    int r = coxi_latest_read(evaluator->dir, &latest);
    if (r == COX_ENOENT || (r == 0 && latest <= evaluator->last)) {
        *ret = 0;
        return 0;
    }
    if (r != 0 || !evaluator->options.every) {
        *ret = latest;
        return r;
    }
    if (evaluator->failed != 0) { /* prefer newer checkpoints to one that failed */
        r = first_above(evaluator->dir, evaluator->failed, latest, &newer);
    }
    if (r == 0 && newer == 0) {
        r = first_above(evaluator->dir, evaluator->last, latest, &newer);
    }
    *ret = newer;
    return r;
}

/* How long to wait for the next checkpoint. */
static int patience_ms(const struct cox_evaluator *evaluator)
{
    return evaluator->last == 0 ? evaluator->options.first_timeout_ms
                                : evaluator->options.idle_timeout_ms;
}

static int tell_none(const struct cox_evaluator *evaluator, int timeout_ms)
{
    return coxi_error(COX_ETIMEDOUT, "no %scheckpoint in %s for %d ms",
                      evaluator->last == 0 ? "" : "newer ", evaluator->dir, timeout_ms);
}

/* Looks once. COX_ETIMEDOUT: the store has not answered, and time is over. */
static int look(const struct cox_evaluator *evaluator, uint64_t start_ms,
                uint64_t *ret_number)
{
    int timeout_ms = patience_ms(evaluator);
    uint64_t end_ms = start_ms + (uint64_t)timeout_ms;
    uint64_t least_ms = coxi_now_ms() + LOOK_MS;
    if (timeout_ms < 0) {
        return choose(evaluator, ret_number);
    }
    coxi_disk_give_up_at(end_ms > least_ms ? end_ms : least_ms);
    int r = choose(evaluator, ret_number);
    coxi_disk_give_up_at(UINT64_MAX);
    return r != COX_ECANCELLED ? r
                               : coxi_error(COX_ETIMEDOUT, "%s has not answered: %s",
                                            evaluator->dir, coxi_error_text());
}

static int wait_for_newer(struct cox_evaluator *evaluator, uint64_t *ret_number)
{
    int timeout_ms = patience_ms(evaluator);
    uint64_t start_ms = coxi_now_ms();
    if (evaluator->failing) {
        (void)poll(NULL, 0, evaluator->options.poll_ms);
    }
    for (;;) {
        uint64_t number = 0;
        int r = look(evaluator, start_ms, &number);
        if (r != 0 || number != 0) {
            *ret_number = number;
            return r;
        }
        if (timeout_ms >= 0 && coxi_now_ms() - start_ms >= (uint64_t)timeout_ms) {
            return tell_none(evaluator, timeout_ms);
        }
        /* Network file systems do not report changes: look again after a while. */
        (void)poll(NULL, 0, evaluator->options.poll_ms);
    }
}

/* Notes that checkpoint `number` (0: LATEST) could not be loaded; returns the code for
 * the caller. */
static int note_failure(struct cox_evaluator *evaluator, uint64_t number, int code)
{
    char text[COXI_ERROR_TEXT_MAX];
    int timeout_ms = patience_ms(evaluator);
    if (!evaluator->failing) {
        evaluator->since_ms = coxi_now_ms();
    } else if (timeout_ms >= 0 &&
               coxi_now_ms() - evaluator->since_ms >= (uint64_t)timeout_ms) {
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        return coxi_error(COX_ETIMEDOUT, "no checkpoint could be loaded for %d ms: %s",
                          timeout_ms, text);
    }
    if (!evaluator->failing || number != evaluator->failed) {
        coxi_disk_give_up_at(coxi_now_ms() + LOOK_MS);
        evaluator->older =
            coxi_checkpoints_whole(evaluator->dir, number != 0 ? number : UINT64_MAX);
        coxi_disk_give_up_at(UINT64_MAX);
    }
    evaluator->failing = true;
    evaluator->failed = number;
    return coxi_checkpoints_offer(code, evaluator->older);
}

/* A final checkpoint is the end, unless another client has claimed the directory since:
 * that client continues the run and writes more. */
static bool is_over(const struct cox_evaluator *evaluator)
{
    if (!evaluator->final) {
        return false;
    }
    coxi_disk_give_up_at(coxi_now_ms() + LOOK_MS);
    int r = coxi_generation_check(evaluator->dir, &evaluator->session);
    coxi_disk_give_up_at(UINT64_MAX);
    /* a store that does not answer may know of another client */
    return r == 0 || (r != COX_EFENCED && !coxi_place_in_store(evaluator->dir));
}

/* The reason why no checkpoint will come, or 0. */
static int check_end(const struct cox_evaluator *evaluator)
{
    const struct cox_evaluator_options *o = &evaluator->options;
    if (is_over(evaluator)) {
        return coxi_error(COX_EEOF, "checkpoint %" PRIu64 " was the last",
                          evaluator->last);
    }
    return o->max_checkpoints == 0 || evaluator->n_loaded < o->max_checkpoints
               ? 0
               : coxi_error(COX_EEOF, "checkpoint %" PRIu64 " was the last of %" PRIu64,
                            evaluator->last, o->max_checkpoints);
}

static void take(struct cox_evaluator *evaluator, struct loaded *loaded,
                 uint64_t number)
{
    const struct coxi_manifest *m = loaded->checkpoint->manifest;
    loaded_free(evaluator->loaded);
    evaluator->loaded = loaded;
    evaluator->last = number;
    evaluator->n_loaded++;
    evaluator->final = m->final;
    evaluator->session = m->session;
    evaluator->failing = false;
    evaluator->failed = 0;
}

int cox_evaluator_next(struct cox_evaluator *evaluator, struct cox_checkpoint_info *ret)
{
    if (evaluator == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_evaluator_next needs an evaluator");
    }
    uint64_t number = 0;
    struct loaded *loaded = NULL;
    int r = check_end(evaluator);
    if (r != 0) {
        return r;
    }
    r = wait_for_newer(evaluator, &number);
    if (r == 0) {
        r = load(evaluator, number, &loaded);
    }
    if (r != 0) {
        return r == COX_ETIMEDOUT ? r : note_failure(evaluator, number, r);
    }
    const struct coxi_manifest *m = loaded->checkpoint->manifest;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    info.number = number;
    info.run = m->session.run;
    info.final = m->final;
    r = coxi_struct_return(ret, COXI_STRUCT_CHECKPOINT_INFO, &info);
    if (r != 0) {
        loaded_free(loaded);
        return r;
    }
    take(evaluator, loaded, number);
    return 0;
}

/* ---- looking things up */

/* Finds the index of variable `name` in the manifest, if it is of that kind. */
static int find(const struct cox_evaluator *evaluator, const char *name,
                enum coxi_kind kind, uint32_t *ret)
{
    if (evaluator->loaded == NULL) {
        return coxi_error(COX_ENOTREADY, "no checkpoint is loaded");
    }
    const struct coxi_manifest *m = evaluator->loaded->checkpoint->manifest;
    if (!is_wanted(evaluator, name)) {
        return coxi_error(COX_ENOENT,
                          "'%s' was not asked for: name it in "
                          "cox_evaluator_options.variables",
                          name);
    }
    for (uint32_t i = 0; i < m->n_variables; i++) {
        if (m->variables[i]->kind == kind && strcmp(m->variables[i]->name, name) == 0) {
            *ret = i;
            return 0;
        }
    }
    return coxi_error(COX_ENOENT, "checkpoint %" PRIu64 " has no %s called '%s'",
                      evaluator->last,
                      kind == COXI_KIND_TABLE ? "table" : "dense variable", name);
}

int cox_evaluator_read(struct cox_evaluator *evaluator, const char *name,
                       void *ret_data, size_t bytes)
{
    uint32_t place;
    if (evaluator == NULL || name == NULL || ret_data == NULL) {
        return coxi_error(COX_EINVAL, "cox_evaluator_read needs a name and a place");
    }
    int r = find(evaluator, name, COXI_KIND_DENSE, &place);
    if (r != 0) {
        return r;
    }
    const struct coxi_checkpoint *checkpoint = evaluator->loaded->checkpoint;
    const struct coxi_variable *v = checkpoint->manifest->variables[place];
    if (bytes != coxi_variable_bytes(v)) {
        return coxi_error(COX_EINVAL, "variable '%s' has %zu bytes, not %zu", name,
                          coxi_variable_bytes(v), bytes);
    }
    const struct coxi_whole *values = coxi_checkpoint_find(checkpoint, v, "values");
    uint8_t *at = ret_data;
    for (size_t i = 0; i < values->n_pieces; i++) {
        const struct coxi_st_tensor *piece = values->pieces[i].tensor;
        r = coxi_st_read(piece, 0, at, piece->bytes);
        if (r != 0) {
            return r;
        }
        at += piece->bytes;
    }
    return 0;
}

int cox_evaluator_lookup(struct cox_evaluator *evaluator, const char *table,
                         const uint64_t *keys, size_t n_keys, uint32_t dim,
                         float *ret_rows)
{
    uint32_t place;
    if (evaluator == NULL || table == NULL ||
        (n_keys > 0 && (keys == NULL || ret_rows == NULL))) {
        return coxi_error(COX_EINVAL, "cox_evaluator_lookup needs keys and a place");
    }
    int r = find(evaluator, table, COXI_KIND_TABLE, &place);
    if (r != 0) {
        return r;
    }
    const struct coxi_row_index *index = &evaluator->loaded->tables[place];
    const struct coxi_variable *v =
        evaluator->loaded->checkpoint->manifest->variables[place];
    if (dim != coxi_table_dim(v)) {
        return coxi_error(COX_EINVAL, "rows of table '%s' have %zu values, not %u",
                          table, coxi_table_dim(v), dim);
    }
    for (size_t i = 0; i < n_keys; i++) {
        bool found;
        r = coxi_row_index_read(index, keys[i], ret_rows + i * dim, &found);
        if (r != 0) {
            return r;
        }
        if (!found) {
            coxi_initializer_row(&v->initializer, keys[i], ret_rows + i * dim, dim);
        }
    }
    return 0;
}

int cox_evaluator_rows(struct cox_evaluator *evaluator, const char *table,
                       uint64_t *ret_rows)
{
    uint32_t place;
    if (evaluator == NULL || table == NULL || ret_rows == NULL) {
        return coxi_error(COX_EINVAL, "cox_evaluator_rows needs a table's name");
    }
    int r = find(evaluator, table, COXI_KIND_TABLE, &place);
    if (r == 0) {
        *ret_rows = evaluator->loaded->tables[place].n_rows;
    }
    return r;
}
