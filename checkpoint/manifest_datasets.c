/* See manifest_datasets.h. If an allocation fails, errno is ENOMEM, and the caller
 * fails at its end (manifest.c, manifest_write.c). */
#include "checkpoint/manifest_datasets.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/types.h"

enum {
    MARKS_MAX = 65536,
    RANGES_MAX = 1 << 20,
    SPEC_MAX = 1 << 20,
    FEW = 16,
};

/* ---- ranges */

int coxi_manifest_ranges_add(struct coxi_manifest_ranges *ranges, uint64_t position,
                             uint32_t failures)
{
    struct coxi_manifest_range *last =
        ranges->n > 0 ? &ranges->all[ranges->n - 1] : NULL;
    if (last != NULL && last->last + 1 == position && last->failures == failures) {
        last->last = position;
        return 0;
    }
    if (ranges->all == NULL || ranges->n == ranges->capacity) {
        size_t capacity = ranges->capacity > 0 ? 2 * ranges->capacity : FEW;
        struct coxi_manifest_range *all =
            realloc(ranges->all, capacity * sizeof(*ranges->all));
        if (all == NULL) {
            return coxi_error_memory("the tasks of a data set");
        }
        ranges->all = all;
        ranges->capacity = capacity;
    }
    ranges->all[ranges->n++] =
        (struct coxi_manifest_range){position, position, failures};
    return 0;
}

void coxi_manifest_ranges_fini(struct coxi_manifest_ranges *ranges)
{
    free(ranges->all);
    *ranges = (struct coxi_manifest_ranges){0};
}

void coxi_manifest_datasets_fini(struct coxi_manifest_datasets *datasets)
{
    for (size_t i = 0; i < datasets->n; i++) {
        struct coxi_manifest_dataset *dataset = &datasets->all[i];
        free(dataset->name);
        free(dataset->spec);
        free(dataset->marks);
        free(dataset->failure);
        coxi_manifest_ranges_fini(&dataset->again);
    }
    free(datasets->all);
    *datasets = (struct coxi_manifest_datasets){0};
}

/* ---- writing */

static json_t *hex_json(const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * len + 1);
    for (size_t i = 0; text != NULL && i < len; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    json_t *json = text != NULL ? json_stringn(text, 2 * len) : NULL;
    free(text);
    return json;
}

static json_t *marks_json(const struct coxi_manifest_dataset *dataset)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < dataset->n_marks; i++) {
        const struct coxi_manifest_mark *mark = &dataset->marks[i];
        (void)json_array_append_new(
            marks,
            json_sprintf("%016" PRIx64 " %" PRIu64 " %" PRIu64 " %08" PRIx32,
                         mark->names, mark->bytes, mark->changed_ns, mark->head_crc));
    }
    return marks;
}

static json_t *ranges_json(const struct coxi_manifest_ranges *ranges)
{
    json_t *array = json_array();
    for (size_t i = 0; i < ranges->n; i++) {
        const struct coxi_manifest_range *range = &ranges->all[i];
        (void)json_array_append_new(
            array, json_sprintf("%" PRIu64 "-%" PRIu64 " %" PRIu32, range->first,
                                range->last, range->failures));
    }
    return array;
}

/* The counts, in one table for writing and reading. */
#define COUNTS(X)                                                                      \
    X(tasks, n_tasks)                                                                  \
    X(files, n_files)                                                                  \
    X(next, next)                                                                      \
    X(done, done)                                                                      \
    X(failed, failed)                                                                  \
    X(skipped, skipped)                                                                \
    X(retries, retries)                                                                \
    X(records, records)                                                                \
    X(bad_records, bad_records)                                                        \
    X(bytes, bytes)

static json_t *dataset_json(const struct coxi_manifest_dataset *dataset)
{
    bool for_ever = dataset->epochs == UINT64_MAX;
    json_t *json = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:i, s:s}", "name", dataset->name, "epochs",
        for_ever ? (json_int_t)0 : (json_int_t)dataset->epochs, "spec",
        hex_json(dataset->spec, dataset->spec_len), "marks", marks_json(dataset),
        "again", ranges_json(&dataset->again), "code", dataset->code, "failure",
        dataset->failure != NULL ? dataset->failure : "");
#define PUT(name, field)                                                               \
    (void)json_object_set_new(json, #name, json_integer((json_int_t)dataset->field));
    COUNTS(PUT)
#undef PUT
    return json;
}

json_t *coxi_manifest_datasets_json(const struct coxi_manifest_datasets *datasets)
{
    json_t *array = json_array();
    for (size_t i = 0; i < datasets->n; i++) {
        (void)json_array_append_new(array, dataset_json(&datasets->all[i]));
    }
    return array;
}

/* ---- reading */

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const json_t *json, struct coxi_manifest_dataset *dataset)
{
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);
    if (text == NULL || len % 2 != 0 || len / 2 > SPEC_MAX) {
        return false;
    }
    dataset->spec = malloc(len / 2 + 1);
    dataset->spec_len = len / 2;
    for (size_t i = 0; dataset->spec != NULL && i < len / 2; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        dataset->spec[i] = (uint8_t)(16 * high + low);
    }
    return dataset->spec != NULL;
}

/* Reads a number and the character behind it; moves `at` on. */
static bool read_number(const char **at, int base, uint64_t most, char behind,
                        uint64_t *ret)
{
    char *end;
    if (digit_of(**at) < 0) {
        return false;
    }
    *ret = strtoull(*at, &end, base);
    bool fits = *end == behind && *ret <= most;
    *at = end + (behind != '\0');
    return fits;
}

static bool read_marks(const json_t *array, struct coxi_manifest_dataset *dataset)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array) || n > MARKS_MAX) {
        return false;
    }
    dataset->marks = calloc(n + 1, sizeof(*dataset->marks));
    dataset->n_marks = dataset->marks != NULL ? n : 0;
    for (size_t i = 0; i < dataset->n_marks; i++) {
        struct coxi_manifest_mark *mark = &dataset->marks[i];
        const char *at = json_string_value(json_array_get(array, i));
        uint64_t crc = 0;
        if (at == NULL || !read_number(&at, 16, UINT64_MAX, ' ', &mark->names) ||
            !read_number(&at, 10, UINT64_MAX, ' ', &mark->bytes) ||
            !read_number(&at, 10, UINT64_MAX, ' ', &mark->changed_ns) ||
            !read_number(&at, 16, UINT32_MAX, '\0', &crc)) {
            return false;
        }
        mark->head_crc = (uint32_t)crc;
    }
    return dataset->marks != NULL;
}

/* Reads ranges that rise, below `next`. */
static bool read_ranges(const json_t *array, uint64_t next,
                        struct coxi_manifest_ranges *ranges)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array) || n > RANGES_MAX) {
        return false;
    }
    ranges->all = calloc(n + 1, sizeof(*ranges->all));
    ranges->capacity = ranges->all != NULL ? n + 1 : 0;
    for (size_t i = 0; ranges->all != NULL && i < n; i++) {
        struct coxi_manifest_range *range = &ranges->all[i];
        const char *at = json_string_value(json_array_get(array, i));
        uint64_t failures = 0;
        if (at == NULL || !read_number(&at, 10, UINT64_MAX, '-', &range->first) ||
            !read_number(&at, 10, UINT64_MAX, ' ', &range->last) ||
            !read_number(&at, 10, UINT32_MAX, '\0', &failures) ||
            range->last < range->first || range->last >= next ||
            (i > 0 && range->first <= range[-1].last)) {
            return false;
        }
        range->failures = (uint32_t)failures;
        ranges->n = i + 1;
    }
    return ranges->all != NULL;
}

static bool read_count(const json_t *json, const char *name, uint64_t *ret)
{
    const json_t *number = json_object_get(json, name);
    if (!json_is_integer(number) || json_integer_value(number) < 0) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(number);
    return true;
}

static bool read_dataset(const json_t *json, struct coxi_manifest_dataset *dataset)
{
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *failure = json_string_value(json_object_get(json, "failure"));
    const json_t *code = json_object_get(json, "code");
    if (name == NULL || failure == NULL || !json_is_integer(code) ||
        !read_count(json, "epochs", &dataset->epochs)) {
        return false;
    }
#define GET(member, field)                                                             \
    if (!read_count(json, #member, &dataset->field)) {                                 \
        return false;                                                                  \
    }
    COUNTS(GET)
#undef GET
    dataset->epochs = dataset->epochs == 0 ? UINT64_MAX : dataset->epochs;
    json_int_t first = json_integer_value(code);
    /* a task that has failed has a code: calls return it */
    if (first > 0 || first < INT_MIN ||
        (first == 0 && dataset->failed + dataset->skipped > 0)) {
        return false;
    }
    dataset->code = (int)first;
    dataset->name = strdup(name);
    dataset->failure = *failure != '\0' ? strdup(failure) : NULL;
    return dataset->name != NULL && (*failure == '\0' || dataset->failure != NULL) &&
           read_hex(json_object_get(json, "spec"), dataset) &&
           read_marks(json_object_get(json, "marks"), dataset) &&
           read_ranges(json_object_get(json, "again"), dataset->next, &dataset->again);
}

bool coxi_manifest_datasets_read(const json_t *array,
                                 struct coxi_manifest_datasets *ret)
{
    size_t n = json_array_size(array);
    if (array == NULL) {
        return true;
    }
    if (!json_is_array(array) || n > COXI_DATASETS_MAX) {
        return false;
    }
    struct coxi_manifest_datasets datasets = {calloc(n + 1, sizeof(*datasets.all)), 0};
    bool whole = datasets.all != NULL;
    for (size_t i = 0; whole && i < n; i++) {
        datasets.n = i + 1;
        whole = read_dataset(json_array_get(array, i), &datasets.all[i]);
    }
    if (!whole) {
        coxi_manifest_datasets_fini(&datasets);
        return false;
    }
    *ret = datasets;
    return true;
}
