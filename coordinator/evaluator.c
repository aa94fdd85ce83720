/*
 * The evaluator: follows a checkpoint directory, loads each newest checkpoint with its
 * checksums, answers look-ups from the memory-mapped shards. Needs no coordinator and
 * no daemon. Single-threaded: one evaluator is used by one thread at a time.
 *
 * A table's keys are indexed once when the checkpoint is loaded; rows stay in the map.
 */
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/manifest.h"
#include "common/safetensors.h"
#include "coordinator/coordinator.h"

/* The rows of a table in all shards, by key. */
struct table_index {
    const struct coxi_variable *variable;
    const float **rows; /* open addressing; NULL: free */
    uint64_t *keys;
    size_t capacity; /* a power of two */
    uint64_t n_rows;
};

struct loaded {
    struct coxi_manifest *manifest;
    struct coxi_st_file **shards;
    struct table_index *tables; /* by place in the manifest's list */
};

struct cox_evaluator {
    char *dir;
    struct cox_evaluator_options options;
    struct loaded *loaded;
    uint64_t last; /* number of the checkpoint last handed out */
    bool ended;
};

/* ---- loading */

static void loaded_free(struct loaded *loaded)
{
    if (loaded == NULL) {
        return;
    }
    const struct coxi_manifest *m = loaded->manifest;
    for (uint32_t i = 0; loaded->shards != NULL && i < m->n_shards; i++) {
        coxi_st_close(loaded->shards[i]);
    }
    for (uint32_t i = 0; loaded->tables != NULL && i < m->n_variables; i++) {
        free(loaded->tables[i].rows);
        free(loaded->tables[i].keys);
    }
    free(loaded->shards);
    free(loaded->tables);
    coxi_manifest_free(loaded->manifest);
    free(loaded);
}

/* The tensor "<name>/<part>" (or "<name>") of a shard, of that type and rank; or
 * NULL. */
static const struct coxi_st_tensor *tensor(const struct loaded *loaded, uint32_t shard,
                                           const char *name, const char *part,
                                           const char *dtype, uint32_t rank)
{
    char full[COXI_WIRE_NAME_MAX + 64];
    (void)snprintf(full, sizeof(full), part != NULL ? "%s/%s" : "%s", name, part);
    const struct coxi_st_tensor *found = coxi_st_find(loaded->shards[shard], full);
    return found != NULL && strcmp(found->dtype, dtype) == 0 && found->rank == rank
               ? found
               : NULL;
}

static void put_row(struct table_index *index, uint64_t key, const float *row)
{
    size_t i = coxi_hash_key(key) & (index->capacity - 1);
    while (index->rows[i] != NULL) {
        i = (i + 1) & (index->capacity - 1);
    }
    index->keys[i] = key;
    index->rows[i] = row;
}

static int index_table(const struct loaded *loaded, const struct coxi_variable *v,
                       struct table_index *index)
{
    const struct coxi_manifest *m = loaded->manifest;
    index->variable = v;
    for (uint32_t i = 0; i < m->n_shards; i++) {
        const struct coxi_st_tensor *keys =
            tensor(loaded, i, v->name, "keys", "U64", 1);
        const struct coxi_st_tensor *values =
            tensor(loaded, i, v->name, "values", "F32", 2);
        if (keys == NULL || values == NULL || values->shape[0] != keys->shape[0] ||
            values->shape[1] != coxi_table_dim(v)) {
            return coxi_error(COX_EFORMAT, "%s lacks table '%s'", m->shards[i].file,
                              v->name);
        }
        index->n_rows += keys->shape[0];
    }
    index->capacity = 16;
    while (index->capacity < index->n_rows * 2) {
        index->capacity *= 2;
    }
    index->rows = calloc(index->capacity, sizeof(float *));
    index->keys = calloc(index->capacity, sizeof(*index->keys));
    if (index->rows == NULL || index->keys == NULL) {
        return coxi_error_memory("a table's index");
    }
    for (uint32_t i = 0; i < m->n_shards; i++) {
        const struct coxi_st_tensor *keys =
            tensor(loaded, i, v->name, "keys", "U64", 1);
        const float *rows = tensor(loaded, i, v->name, "values", "F32", 2)->data;
        for (uint64_t row = 0; row < keys->shape[0]; row++) {
            put_row(index, ((const uint64_t *)keys->data)[row],
                    rows + row * coxi_table_dim(v));
        }
    }
    return 0;
}

static int load_into(const char *path, struct loaded *loaded)
{
    int r = coxi_manifest_read(path, &loaded->manifest);
    if (r != 0) {
        return r;
    }
    const struct coxi_manifest *m = loaded->manifest;
    loaded->shards = calloc(m->n_shards, sizeof(struct coxi_st_file *));
    loaded->tables = calloc(m->n_variables + 1, sizeof(*loaded->tables));
    if (loaded->shards == NULL || loaded->tables == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (uint32_t i = 0; r == 0 && i < m->n_shards; i++) {
        char file[PATH_MAX];
        r = coxi_path(file, "%s/%s", path, m->shards[i].file);
        if (r == 0) {
            r = coxi_st_open(file, m->shards[i].bytes, &m->shards[i].crc32,
                             &loaded->shards[i]);
        }
    }
    for (uint32_t i = 0; r == 0 && i < m->n_variables; i++) {
        if (m->variables[i]->kind == COXI_KIND_TABLE) {
            r = index_table(loaded, m->variables[i], &loaded->tables[i]);
        }
    }
    return r;
}

static int load(const char *dir, uint64_t number, struct loaded **ret)
{
    char path[PATH_MAX];
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, number);
    if (r == 0) {
        r = load_into(path, loaded);
    }
    if (r != 0) {
        loaded_free(loaded);
        return r;
    }
    *ret = loaded;
    return 0;
}

/* ---- following the directory */

int cox_evaluator_open(const char *dir, const struct cox_evaluator_options *options,
                       struct cox_evaluator **ret)
{
    struct cox_evaluator_options o = COX_EVALUATOR_OPTIONS_INIT;
    if (dir == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL,
                          "cox_evaluator_open needs a checkpoint directory");
    }
    int r = options != NULL
                ? coxi_struct_copy(&o, sizeof(o), options, "cox_evaluator_options")
                : 0;
    if (r != 0) {
        return r;
    }
    struct cox_evaluator *evaluator = calloc(1, sizeof(*evaluator));
    char *copy = strdup(dir);
    if (evaluator == NULL || copy == NULL) {
        free(evaluator);
        free(copy);
        return coxi_error_memory("an evaluator");
    }
    evaluator->dir = copy;
    evaluator->options = o;
    evaluator->options.first_timeout_ms =
        o.first_timeout_ms != 0 ? o.first_timeout_ms : 60000;
    evaluator->options.idle_timeout_ms =
        o.idle_timeout_ms != 0 ? o.idle_timeout_ms : 60000;
    evaluator->options.poll_ms = o.poll_ms > 0 ? o.poll_ms : 100;
    *ret = evaluator;
    return 0;
}

/* Waits until LATEST names a checkpoint that has not been handed out. */
static int wait_for_newer(struct cox_evaluator *evaluator, uint64_t *ret_number)
{
    int timeout_ms = evaluator->last == 0 ? evaluator->options.first_timeout_ms
                                          : evaluator->options.idle_timeout_ms;
    uint64_t start_ms = coxi_now_ms();
    for (;;) {
        uint64_t number = 0;
        int r = coxi_latest_read(evaluator->dir, &number);
        if (r != 0 && r != COX_ENOENT) {
            return r;
        }
        if (r == 0 && number > evaluator->last) {
            *ret_number = number;
            return 0;
        }
        if (timeout_ms >= 0 && coxi_now_ms() - start_ms >= (uint64_t)timeout_ms) {
            return coxi_error(COX_ETIMEDOUT, "no %scheckpoint in %s for %d ms",
                              evaluator->last == 0 ? "" : "newer ", evaluator->dir,
                              timeout_ms);
        }
        /* Network file systems tell nobody of changes: look again after a while. */
        (void)poll(NULL, 0, evaluator->options.poll_ms);
    }
}

int cox_evaluator_next(struct cox_evaluator *evaluator, struct cox_checkpoint_info *ret)
{
    if (evaluator == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_evaluator_next needs an evaluator");
    }
    if (evaluator->ended) {
        return coxi_error(COX_EEOF, "checkpoint %" PRIu64 " was the last",
                          evaluator->last);
    }
    uint64_t number = 0;
    struct loaded *loaded = NULL;
    int r = wait_for_newer(evaluator, &number);
    if (r == 0) {
        r = load(evaluator->dir, number, &loaded);
    }
    if (r != 0) {
        return r;
    }
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    info.number = number;
    info.run = loaded->manifest->session.run;
    info.final = loaded->manifest->final;
    r = coxi_struct_return(ret, sizeof(info), &info, "cox_checkpoint_info");
    if (r != 0) {
        loaded_free(loaded);
        return r;
    }
    loaded_free(evaluator->loaded);
    evaluator->loaded = loaded;
    evaluator->last = number;
    evaluator->ended = loaded->manifest->final;
    return 0;
}

/* ---- looking things up */

/* The place of variable `name` in the manifest, if it is of that kind. */
static int find(const struct cox_evaluator *evaluator, const char *name,
                enum coxi_kind kind, uint32_t *ret)
{
    if (evaluator->loaded == NULL) {
        return coxi_error(COX_ENOTREADY, "no checkpoint is loaded");
    }
    const struct coxi_manifest *m = evaluator->loaded->manifest;
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
    const struct loaded *loaded = evaluator->loaded;
    const struct coxi_variable *v = loaded->manifest->variables[place];
    size_t row_bytes = coxi_variable_row_bytes(v);
    if (bytes != coxi_variable_bytes(v)) {
        return coxi_error(COX_EINVAL, "variable '%s' has %zu bytes, not %zu", name,
                          coxi_variable_bytes(v), bytes);
    }
    for (size_t i = 0; i < v->n_shards; i++) {
        char part[32];
        const struct coxi_shard *shard = &v->shards[i];
        (void)snprintf(part, sizeof(part), "part_%zu", i);
        const struct coxi_st_tensor *t =
            tensor(loaded, (uint32_t)shard->ps, name, v->n_shards > 1 ? part : NULL,
                   coxi_dtype_name(v->dtype), v->rank);
        if (t == NULL || t->bytes != shard->count * row_bytes) {
            return coxi_error(COX_EFORMAT,
                              "checkpoint %" PRIu64 " lacks a part of '%s'",
                              evaluator->last, name);
        }
        memcpy((uint8_t *)ret_data + shard->begin * row_bytes, t->data, t->bytes);
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
    const struct table_index *index = &evaluator->loaded->tables[place];
    if (dim != coxi_table_dim(index->variable)) {
        return coxi_error(COX_EINVAL, "rows of table '%s' have %zu values, not %u",
                          table, coxi_table_dim(index->variable), dim);
    }
    for (size_t i = 0; i < n_keys; i++) {
        size_t at = coxi_hash_key(keys[i]) & (index->capacity - 1);
        while (index->rows[at] != NULL && index->keys[at] != keys[i]) {
            at = (at + 1) & (index->capacity - 1);
        }
        if (index->rows[at] != NULL) {
            memcpy(ret_rows + i * dim, index->rows[at], dim * sizeof(*ret_rows));
        } else {
            coxi_initializer_row(&index->variable->initializer, keys[i],
                                 ret_rows + i * dim, dim);
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

/* ---- results */

static char *report_line(const struct cox_evaluator *evaluator,
                         const struct cox_score *scores, size_t n_scores)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    json_t *line = json_pack("{s:I, s:f}", "checkpoint", (json_int_t)evaluator->last,
                             "time", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    for (size_t i = 0; i < n_scores; i++) {
        /* JSON knows no NaN and no infinity. */
        json_t *value = json_real(scores[i].value);
        (void)json_object_set_new(line, scores[i].name,
                                  value != NULL ? value : json_null());
    }
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

int cox_evaluator_report(struct cox_evaluator *evaluator,
                         const struct cox_score *scores, size_t n_scores)
{
    char path[PATH_MAX];
    if (evaluator == NULL || (n_scores > 0 && scores == NULL)) {
        return coxi_error(COX_EINVAL, "cox_evaluator_report needs scores");
    }
    if (evaluator->loaded == NULL) {
        return coxi_error(COX_ENOTREADY, "no checkpoint is loaded");
    }
    char *text = report_line(evaluator, scores, n_scores);
    if (text == NULL) {
        return coxi_error(COX_EINVAL, "a metric's name is no UTF-8 text");
    }
    int r = coxi_path(path, "%s/eval.jsonl", evaluator->dir);
    FILE *file = r == 0 ? fopen(path, "ae") : NULL;
    if (r == 0 && (file == NULL || fprintf(file, "%s\n", text) < 0)) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    if (file != NULL && fclose(file) != 0 && r == 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    free(text);
    return r;
}

void cox_evaluator_close(struct cox_evaluator *evaluator)
{
    if (evaluator != NULL) {
        loaded_free(evaluator->loaded);
        free(evaluator->dir);
        free(evaluator);
    }
}
