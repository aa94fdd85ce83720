/*
 * See manifest.h. JSON by jansson; 64-bit ids that JSON readers might round are hex
 * text.
 *
 * If an allocation fails, here or in jansson, errno is ENOMEM. The work goes on without
 * the missing piece, and fails at the end (lacked_memory).
 */
#include "checkpoint/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "checkpoint/place.h"
#include "checkpoint/stored.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/file.h"
#include "common/layout.h"

/* True if an allocation has failed since errno was set to 0. */
static bool lacked_memory(void)
{
    return errno == ENOMEM;
}

void coxi_manifest_file(uint32_t ps, uint32_t n_ps, char ret[64])
{
    (void)snprintf(ret, 64, "ps-%" PRIu32 "-of-%" PRIu32 ".safetensors", ps, n_ps);
}

/* ---- the checksum */

static const char seal_before[] = ",\n \"crc32\": \"";
static const char seal_after[] = "\"\n}\n";

enum { SEAL_DIGITS = 8 };
enum { SEAL_LEN = sizeof(seal_before) - 1 + SEAL_DIGITS + sizeof(seal_after) - 1 };

/* Copies the first `len` bytes of the text, and appends the checksum and the end. */
static char *add_seal(const char *text, size_t len)
{
    char *sealed = malloc(len + SEAL_LEN + 1);
    if (sealed != NULL) {
        memcpy(sealed, text, len);
        uint32_t crc = (uint32_t)crc32_z(0, (const Bytef *)text, len);
        (void)snprintf(sealed + len, SEAL_LEN + 1, "%s%08" PRIx32 "%s", seal_before,
                       crc, seal_after);
    }
    return sealed;
}

char *coxi_manifest_seal(const char *text)
{
    const char *end = strrchr(text, '}');
    size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    return add_seal(text, len);
}

/* Returns 0 if the text ends with the checksum of everything before it. */
static int check_seal(const char *file, const char *text, size_t len)
{
    size_t before = len >= SEAL_LEN ? len - SEAL_LEN : 0;
    char *again = add_seal(text, before);
    int r = 0;
    if (again == NULL) {
        r = coxi_error_memory("a manifest");
    } else if (len < SEAL_LEN ||
               memcmp(again + before, text + before, sizeof(seal_before) - 1) != 0) {
        r = coxi_error(COX_EFORMAT,
                       "%s does not end with its checksum: it was cut or edited", file);
    } else if (memcmp(again, text, len) != 0) {
        r = coxi_error(COX_ECHECKSUM, "%s is damaged: it says %.8s, crc32 %.8s belongs",
                       file, text + before + sizeof(seal_before) - 1,
                       again + before + sizeof(seal_before) - 1);
    }
    free(again);
    return r;
}

/* ---- reading */

static bool get_u64(const json_t *object, const char *key, uint64_t *ret)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

static bool get_u32(const json_t *object, const char *key, uint32_t *ret)
{
    uint64_t n;
    if (!get_u64(object, key, &n) || n > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)n;
    return true;
}

static bool get_float(const json_t *object, const char *key, float *ret)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        return false;
    }
    *ret = (float)json_number_value(value);
    return true;
}

/*
 * Reads a member that older versions do not write: if it is missing, *ret keeps its
 * value, which must be what a missing member meant in those versions. Every new member
 * is read like this; a member that older readers must not ignore needs a new format
 * number.
 */
#define LATER(get, object, key, ret)                                                   \
    (json_object_get(object, key) == NULL || get(object, key, ret))

static bool get_hex(const json_t *object, const char *key, uint64_t *ret)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    *ret = strtoull(text, NULL, 16);
    return true;
}

static bool get_item(const json_t *array, size_t i, uint64_t most, uint64_t *ret)
{
    const json_t *number = json_array_get(array, i);
    if (!json_is_integer(number) || json_integer_value(number) < 0 ||
        (uint64_t)json_integer_value(number) > most) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(number);
    return true;
}

/* Reads an interval, which must come after `before` (NULL: it is the first). */
static bool read_interval(const json_t *in, const struct coxi_interval *before,
                          struct coxi_applied_list *list, struct coxi_interval *ret)
{
    uint64_t numbers[4];
    const json_t *touched = json_array_get(in, 4);
    for (size_t k = 0; k < 4; k++) {
        if (!get_item(in, k,
                      k < 2    ? INT64_MAX
                      : k == 2 ? UINT32_MAX
                               : 1,
                      &numbers[k])) {
            return false;
        }
    }
    *ret = (struct coxi_interval){numbers[0],
                                  numbers[1],
                                  (uint32_t)numbers[2],
                                  (uint32_t)numbers[3],
                                  (uint32_t)list->n_touched,
                                  (uint32_t)json_array_size(touched)};
    bool follows = before == NULL || before->segment < ret->segment ||
                   (before->segment == ret->segment && before->last < ret->first);
    if (!follows || ret->first <= list->watermark || ret->last < ret->first ||
        !json_is_array(touched)) {
        return false;
    }
    for (uint32_t k = 0; k < ret->touched_n; k++) {
        uint64_t ps;
        if (!get_item(touched, k, UINT32_MAX, &ps)) {
            return false;
        }
        list->touched[list->n_touched++] = (uint32_t)ps;
    }
    return true;
}

static bool read_applied(const json_t *in, struct coxi_applied_list *list)
{
    size_t n = json_array_size(in);
    size_t n_touched = 0;
    for (size_t i = 0; i < n; i++) {
        n_touched += json_array_size(json_array_get(json_array_get(in, i), 4));
    }
    list->intervals = calloc(n + 1, sizeof(*list->intervals));
    list->touched = calloc(n_touched + 1, sizeof(*list->touched));
    if (!json_is_array(in) || list->intervals == NULL || list->touched == NULL) {
        return false;
    }
    for (; list->n_intervals < n; list->n_intervals++) {
        size_t i = list->n_intervals;
        if (!read_interval(json_array_get(in, i),
                           i > 0 ? &list->intervals[i - 1] : NULL, list,
                           &list->intervals[i])) {
            return false;
        }
    }
    return true;
}

/* Reads the entry of a file of the checkpoint. */
static bool read_file(const json_t *in, struct coxi_manifest_shard *shard)
{
    const char *file = json_string_value(json_object_get(in, "file"));
    if (file == NULL || strlen(file) >= sizeof(shard->file) ||
        strchr(file, '/') != NULL || file[0] == '.' || file[0] == '\0' ||
        !get_u64(in, "bytes", &shard->bytes) || !get_u32(in, "crc32", &shard->crc32)) {
        return false;
    }
    (void)snprintf(shard->file, sizeof(shard->file), "%s", file);
    return true;
}

static bool read_shard(const json_t *in, struct coxi_manifest_shard *shard)
{
    return read_file(in, shard) && LATER(get_u64, in, "base", &shard->base) &&
           get_u64(in, "watermark", &shard->applied.watermark) &&
           read_applied(json_object_get(in, "applied"), &shard->applied);
}

/* Reads where a client resumes. Older manifests have neither member, because all
 * closures that they cover are done. */
static bool read_progress(const json_t *root, struct coxi_manifest *m)
{
    const json_t *progress = json_object_get(root, "progress");
    const json_t *backlog = json_object_get(root, "backlog");
    m->progress.closure = m->next_closure > 0 ? m->next_closure - 1 : 0;
    return (progress == NULL || (get_u64(progress, "closure", &m->progress.closure) &&
                                 get_hex(progress, "cursor", &m->progress.cursor))) &&
           (backlog == NULL || json_is_null(backlog) ||
            (read_file(backlog, &m->backlog) && m->backlog.bytes > 0));
}

static bool read_schedule(const json_t *optimizer, const char *key,
                          struct coxi_schedule *s)
{
    const json_t *in = json_object_get(optimizer, key);
    bool whole = get_u32(in, "kind", &s->kind) && get_u64(in, "steps", &s->steps) &&
                 LATER(get_u64, in, "warmup_steps", &s->warmup_steps);
#define GET(name) whole = whole && LATER(get_float, in, #name, &s->name);
    COXI_SCHEDULE_NUMBERS(GET)
#undef GET
    return whole;
}

static bool read_optimizer(const json_t *in, struct coxi_optimizer *o)
{
    bool whole = get_u32(in, "kind", &o->kind) &&
                 LATER(read_schedule, in, "schedule", &o->schedule);
#define GET(name) whole = whole && LATER(get_float, in, #name, &o->name);
    COXI_OPTIMIZER_NUMBERS(GET)
#undef GET
    return whole;
}

static bool read_lifecycle(const json_t *variable, const char *key,
                           struct coxi_lifecycle *l)
{
    const json_t *in = json_object_get(variable, key);
    return json_is_object(in) && LATER(get_u32, in, "admit_count", &l->admit_count) &&
           LATER(get_float, in, "admit_probability", &l->admit_probability) &&
           LATER(get_u64, in, "evict_age", &l->evict_age) &&
           LATER(get_u32, in, "evict_count", &l->evict_count) &&
           LATER(get_u64, in, "evict_count_age", &l->evict_count_age) &&
           LATER(get_u64, in, "rows_max", &l->rows_max);
}

static bool read_rules(const json_t *in, struct coxi_variable *v)
{
    const json_t *i = json_object_get(in, "initializer");
    return read_optimizer(json_object_get(in, "optimizer"), &v->optimizer) &&
           get_u32(i, "kind", &v->initializer.kind) &&
           get_float(i, "a", &v->initializer.a) &&
           get_float(i, "b", &v->initializer.b) &&
           get_hex(i, "seed", &v->initializer.seed) &&
           LATER(get_u32, in, "wire_dtype", &v->wire_dtype) &&
           LATER(get_u32, in, "wire_rounding", &v->wire_rounding) &&
           LATER(get_u32, in, "nonfinite", &v->nonfinite) &&
           LATER(get_u32, in, "staleness_action", &v->staleness.action) &&
           LATER(get_u64, in, "staleness_max", &v->staleness.max) &&
           LATER(get_float, in, "delay_compensation", &v->staleness.compensation) &&
           LATER(get_u32, in, "metric", &v->metric) &&
           LATER(read_lifecycle, in, "lifecycle", &v->lifecycle);
}

static bool read_shards_of(const json_t *in, struct coxi_variable *v,
                           struct coxi_shard *shards)
{
    v->shards = shards;
    v->n_shards = json_array_size(in);
    if (!json_is_array(in) || v->n_shards > COXI_PS_MAX) {
        return false;
    }
    for (size_t i = 0; i < v->n_shards; i++) {
        const json_t *shard = json_array_get(in, i);
        if (!get_u64(shard, "ps", &shards[i].ps) ||
            !get_u64(shard, "begin", &shards[i].begin) ||
            !get_u64(shard, "count", &shards[i].count)) {
            return false;
        }
    }
    return true;
}

static bool read_shape(const json_t *in, struct coxi_variable *v)
{
    v->rank = (uint32_t)json_array_size(in);
    for (uint32_t i = 0; i < v->rank && v->rank <= COXI_WIRE_RANK_MAX; i++) {
        json_int_t n = json_integer_value(json_array_get(in, i));
        v->shape[i] = n > 0 ? (uint64_t)n : 0;
    }
    return json_is_array(in) && v->rank <= COXI_WIRE_RANK_MAX;
}

static bool read_variable(const json_t *in, uint32_t n_ps, struct coxi_variable **ret)
{
    struct coxi_shard shards[COXI_PS_MAX];
    struct coxi_variable v = {0};
    const char *kind = json_string_value(json_object_get(in, "kind"));
    const char *dtype = json_string_value(json_object_get(in, "dtype"));
    const json_t *list = json_object_get(in, "shards");
    v.name = json_string_value(json_object_get(in, "name"));
    if (v.name == NULL || kind == NULL || dtype == NULL || !get_u32(in, "id", &v.id) ||
        v.id >= COXI_VARIABLES_MAX || !read_shape(json_object_get(in, "shape"), &v) ||
        !read_rules(in, &v) || !read_shards_of(list, &v, shards)) {
        return false;
    }
    bool table = strcmp(kind, "table") == 0;
    if (!table && strcmp(kind, "dense") != 0) {
        return false;
    }
    v.kind = table ? COXI_KIND_TABLE : COXI_KIND_DENSE;
    v.dtype = coxi_dtype_parse(dtype);
    return coxi_variable_check(&v, n_ps) == 0 && coxi_variable_copy(&v, ret) == 0;
}

static bool read_variables(const json_t *list, struct coxi_manifest *m)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > COXI_VARIABLES_MAX) {
        return false;
    }
    m->variables = calloc(n + 1, sizeof(struct coxi_variable *));
    for (size_t i = 0; m->variables != NULL && i < n; i++) {
        if (!read_variable(json_array_get(list, i), m->n_shards, &m->variables[i])) {
            return false;
        }
        m->n_variables = (uint32_t)i + 1;
        if (i > 0 && m->variables[i]->id <= m->variables[i - 1]->id) {
            return false;
        }
    }
    return m->variables != NULL;
}

static bool read_shards(const json_t *list, struct coxi_manifest *m)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > COXI_PS_MAX) {
        return false;
    }
    m->shards = calloc(n, sizeof(*m->shards));
    m->n_shards = m->shards != NULL ? (uint32_t)n : 0;
    for (size_t i = 0; m->shards != NULL && i < n; i++) {
        const struct coxi_manifest_shard *shard = &m->shards[i];
        if (!read_shard(json_array_get(list, i), &m->shards[i]) ||
            (shard->base != 0 && shard->base != m->base)) {
            return false;
        }
    }
    return m->shards != NULL;
}

/* Checks the format number; returns what is wrong, or NULL. */
static const char *check_format(const json_t *root)
{
    uint32_t format = 0;
    if (!get_u32(root, "format", &format)) {
        return "it has no format number";
    }
    if (format > COXI_MANIFEST_FORMAT) {
        return "it was written by a newer version, in a format that this one does not "
               "read";
    }
    return format == COXI_MANIFEST_FORMAT
               ? NULL
               : "it has a format number that there never was";
}

/* Reads all members; returns what is wrong, or NULL. */
static const char *read_root(const json_t *root, struct coxi_manifest *m)
{
    const char *wrong = check_format(root);
    if (wrong != NULL) {
        return wrong;
    }
    if (!get_hex(root, "run", &m->session.run) ||
        !get_u64(root, "generation", &m->session.generation) ||
        !get_u64(root, "checkpoint", &m->number) ||
        !LATER(get_u64, root, "base", &m->base) ||
        (m->base != 0 && m->base >= m->number) ||
        !get_u64(root, "next_closure", &m->next_closure) ||
        !LATER(get_u64, root, "first_closure", &m->first_closure) ||
        !LATER(get_u64, root, "steps_before", &m->steps_before) ||
        !LATER(get_u64, root, "next_place", &m->next_place) ||
        !json_is_number(json_object_get(root, "time")) ||
        !json_is_boolean(json_object_get(root, "final"))) {
        return "a member is missing";
    }
    m->time_s = json_number_value(json_object_get(root, "time"));
    m->final = json_is_true(json_object_get(root, "final"));
    if (!read_progress(root, m)) {
        return "its progress or backlog is malformed";
    }
    if (!read_shards(json_object_get(root, "shards"), m)) {
        return "its list of shards is malformed";
    }
    if (!read_variables(json_object_get(root, "variables"), m)) {
        return "its list of variables is malformed";
    }
    if (!coxi_manifest_datasets_read(json_object_get(root, "data_sets"),
                                     &m->datasets)) {
        return "its list of data sets is malformed";
    }
    return NULL;
}

/* COX_EFORMAT, COX_ENOMEM. */
static int parse(const char *file, const char *text, size_t len,
                 struct coxi_manifest **ret)
{
    json_error_t error = {0};
    int r = 0;
    errno = 0;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    struct coxi_manifest *manifest = calloc(1, sizeof(*manifest));
    const char *wrong =
        root == NULL || manifest == NULL ? error.text : read_root(root, manifest);
    if (wrong != NULL) {
        r = lacked_memory() ? coxi_error_memory("a manifest")
                            : coxi_error(COX_EFORMAT, "%s: %s", file, wrong);
    }
    json_decref(root);
    if (r == 0) {
        *ret = manifest;
    } else {
        coxi_manifest_free(manifest);
    }
    return r;
}

int coxi_manifest_read(const char *path, struct coxi_manifest **ret)
{
    char file[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    int r = coxi_path(file, "%s/manifest.json", path);
    if (r == 0) {
        r = coxi_place_read(file, COXI_MANIFEST_BYTES_MAX, &text, &len);
    }
    if (r != 0) {
        return r;
    }
    r = coxi_place_in_store(path) && len <= COXI_PLACEHOLDER_MAX
            ? coxi_error(COX_ENOENT, "%s is being written, or deleted", path)
            : check_seal(file, (const char *)text, len);
    if (r == 0) {
        r = parse(file, (const char *)text, len, ret);
    }
    free(text);
    return r;
}

int coxi_manifest_find(const char *path)
{
    char url[PATH_MAX];
    uint64_t bytes = 0;
    struct coxi_stored_version version;
    int r = coxi_path(url, "%s/manifest.json", path);
    r = r == 0 ? coxi_stored_look(url, &bytes, &version) : r;
    return r == 0 && bytes <= COXI_PLACEHOLDER_MAX
               ? coxi_error(COX_ENOENT, "%s is being written, or deleted", path)
               : r;
}

void coxi_manifest_free(struct coxi_manifest *manifest)
{
    if (manifest == NULL) {
        return;
    }
    for (uint32_t i = 0; manifest->shards != NULL && i < manifest->n_shards; i++) {
        coxi_applied_list_fini(&manifest->shards[i].applied);
    }
    for (uint32_t i = 0; i < manifest->n_variables; i++) {
        coxi_variable_free(manifest->variables[i]);
    }
    coxi_manifest_datasets_fini(&manifest->datasets);
    free(manifest->shards);
    free(manifest->variables);
    free(manifest);
}
