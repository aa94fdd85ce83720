/* Writes manifests: see manifest.h. If an allocation fails, here or in jansson, a piece
 * is left out, and writing fails at the end, because errno is ENOMEM. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/file.h"
#include "common/layout.h"

static json_t *hex(uint64_t n)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%016" PRIx64, n);
    return json_string(text);
}

/* Members for which readers assume 0 if they are missing: written only if they are not
 * 0. */
static void put_count(json_t *object, const char *key, uint64_t n)
{
    if (n != 0) {
        (void)json_object_set_new(object, key, json_integer((json_int_t)n));
    }
}

static void put_number(json_t *object, const char *key, float number)
{
    if (number != 0) {
        (void)json_object_set_new(object, key, json_real((double)number));
    }
}

/* [first, last, segment, ends, [ps ...]] for each interval. */
static json_t *applied_json(const struct coxi_applied_list *list)
{
    json_t *applied = json_array();
    for (size_t i = 0; i < list->n_intervals; i++) {
        const struct coxi_interval *in = &list->intervals[i];
        json_t *touched = json_array();
        for (uint32_t k = 0; k < in->touched_n; k++) {
            (void)json_array_append_new(
                touched, json_integer((json_int_t)list->touched[in->touched_at + k]));
        }
        (void)json_array_append_new(
            applied,
            json_pack("[I, I, I, I, o]", (json_int_t)in->first, (json_int_t)in->last,
                      (json_int_t)in->segment, (json_int_t)in->ends, touched));
    }
    return applied;
}

static json_t *shard_json(const struct coxi_manifest_shard *shard)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "file", shard->file, "bytes",
                     (json_int_t)shard->bytes, "crc32", (json_int_t)shard->crc32,
                     "base", (json_int_t)shard->base, "watermark",
                     (json_int_t)shard->applied.watermark, "applied",
                     applied_json(&shard->applied));
}

static json_t *backlog_json(const struct coxi_manifest_shard *backlog)
{
    return backlog->bytes == 0 ? json_null()
                               : json_pack("{s:s, s:I, s:I}", "file", backlog->file,
                                           "bytes", (json_int_t)backlog->bytes, "crc32",
                                           (json_int_t)backlog->crc32);
}

/* NULL: the rate is constant; or there is no memory. */
static json_t *schedule_json(const struct coxi_schedule *s)
{
    json_t *schedule = json_object();
    put_count(schedule, "warmup_steps", s->warmup_steps);
#define PUT(name) put_number(schedule, #name, s->name);
    COXI_SCHEDULE_NUMBERS(PUT)
#undef PUT
    if (s->kind == 0 && s->steps == 0 && json_object_size(schedule) == 0) {
        json_decref(schedule);
        return NULL;
    }
    (void)json_object_set_new(schedule, "kind", json_integer((json_int_t)s->kind));
    (void)json_object_set_new(schedule, "steps", json_integer((json_int_t)s->steps));
    return schedule;
}

static json_t *optimizer_json(const struct coxi_optimizer *o)
{
    json_t *optimizer = json_pack("{s:I, s:o*}", "kind", (json_int_t)o->kind,
                                  "schedule", schedule_json(&o->schedule));
#define PUT(name) put_number(optimizer, #name, o->name);
    COXI_OPTIMIZER_NUMBERS(PUT)
#undef PUT
    return optimizer;
}

static json_t *lifecycle_json(const struct coxi_lifecycle *l)
{
    json_t *lifecycle = json_object();
    put_count(lifecycle, "admit_count", l->admit_count);
    put_number(lifecycle, "admit_probability", l->admit_probability);
    put_count(lifecycle, "evict_age", l->evict_age);
    put_count(lifecycle, "evict_count", l->evict_count);
    put_count(lifecycle, "evict_count_age", l->evict_count_age);
    put_count(lifecycle, "rows_max", l->rows_max);
    return lifecycle;
}

static json_t *variable_json(const struct coxi_variable *v)
{
    json_t *shape = json_array();
    json_t *shards = json_array();
    for (uint32_t i = 0; i < v->rank; i++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)v->shape[i]));
    }
    for (size_t i = 0; i < v->n_shards; i++) {
        (void)json_array_append_new(
            shards, json_pack("{s:I, s:I, s:I}", "ps", (json_int_t)v->shards[i].ps,
                              "begin", (json_int_t)v->shards[i].begin, "count",
                              (json_int_t)v->shards[i].count));
    }
    json_t *initializer =
        json_pack("{s:I, s:f, s:f, s:o}", "kind", (json_int_t)v->initializer.kind, "a",
                  (double)v->initializer.a, "b", (double)v->initializer.b, "seed",
                  hex(v->initializer.seed));
    json_t *variable = json_pack(
        "{s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", (json_int_t)v->id,
        "name", v->name, "kind", v->kind == COXI_KIND_TABLE ? "table" : "dense",
        "dtype", coxi_dtype_name(v->dtype), "shape", shape, "shards", shards,
        "optimizer", optimizer_json(&v->optimizer), "initializer", initializer,
        "lifecycle", lifecycle_json(&v->lifecycle));
    put_count(variable, "wire_dtype", v->wire_dtype);
    put_count(variable, "wire_rounding", v->wire_rounding);
    put_count(variable, "nonfinite", v->nonfinite);
    put_count(variable, "staleness_action", v->staleness.action);
    put_count(variable, "staleness_max", v->staleness.max);
    put_number(variable, "delay_compensation", v->staleness.compensation);
    put_count(variable, "metric", v->metric);
    return variable;
}

static char *manifest_text(const struct coxi_manifest *m)
{
    json_t *shards = json_array();
    json_t *variables = json_array();
    for (uint32_t i = 0; i < m->n_shards; i++) {
        (void)json_array_append_new(shards, shard_json(&m->shards[i]));
    }
    for (uint32_t i = 0; i < m->n_variables; i++) {
        if (m->variables[i] != NULL) {
            (void)json_array_append_new(variables, variable_json(m->variables[i]));
        }
    }
    json_t *root = json_pack(
        "{s:i, s:o, s:I, s:I, s:I, s:f, s:b, s:I, s:I, s:I, s:I, s:{s:I, s:o}, s:o, "
        "s:o, s:o}",
        "format", COXI_MANIFEST_FORMAT, "run", hex(m->session.run), "generation",
        (json_int_t)m->session.generation, "checkpoint", (json_int_t)m->number, "base",
        (json_int_t)m->base, "time", m->time_s, "final", m->final, "next_closure",
        (json_int_t)m->next_closure, "first_closure", (json_int_t)m->first_closure,
        "steps_before", (json_int_t)m->steps_before, "next_place",
        (json_int_t)m->next_place, "progress", "closure",
        (json_int_t)m->progress.closure, "cursor", hex(m->progress.cursor), "backlog",
        backlog_json(&m->backlog), "shards", shards, "variables", variables);
    if (m->datasets.n > 0) {
        (void)json_object_set_new(root, "data_sets",
                                  coxi_manifest_datasets_json(&m->datasets));
    }
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    char *sealed = text != NULL ? coxi_manifest_seal(text) : NULL;
    free(text);
    return sealed;
}

int coxi_manifest_text(const struct coxi_manifest *manifest, char **ret)
{
    errno = 0;
    char *text = manifest_text(manifest);
    if (text == NULL || errno == ENOMEM) {
        free(text);
        return coxi_error_memory("a manifest");
    }
    *ret = text;
    return 0;
}

int coxi_manifest_write(const struct coxi_manifest *manifest, const char *path)
{
    char file[PATH_MAX];
    char *text = NULL;
    int r = coxi_path(file, "%s/manifest.json", path);
    r = r == 0 ? coxi_manifest_text(manifest, &text) : r;
    r = r == 0 ? coxi_file_write(file, text, strlen(text)) : r;
    free(text);
    return r == 0 ? coxi_directory_sync(path) : r;
}
