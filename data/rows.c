/* See rows.h. Arrays double when they are full. */
#include "data/rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum { RECORDS_AT_FIRST = 256, FEATURES_AT_FIRST = 4096, COPY_BYTES = 64 << 10 };

void coxi_rows_init(struct coxi_rows *rows, const struct coxi_rows_shape *shape,
                    struct coxi_block_pool *pool)
{
    *rows = (struct coxi_rows){.shape = *shape, .pool = pool};
}

void coxi_rows_clear(struct coxi_rows *rows)
{
    for (size_t i = 0; i < rows->n_blocks; i++) {
        coxi_block_unref(rows->pool, rows->blocks[i]);
    }
    rows->n_blocks = 0;
    rows->copies = NULL;
    rows->copied = 0;
    rows->n = 0;
    rows->n_features = 0;
    rows->n_bytes = 0;
}

void coxi_rows_fini(struct coxi_rows *rows)
{
    coxi_rows_clear(rows);
    free(rows->offsets);
    free(rows->labels);
    free(rows->weights);
    free(rows->begin);
    free(rows->keys);
    free(rows->values);
    free(rows->fields);
    free(rows->dense);
    free(rows->bytes);
    free((void *)rows->blocks);
    *rows = (struct coxi_rows){0};
}

static size_t enough(size_t capacity, size_t at_first, size_t need)
{
    size_t grown = capacity > 0 ? 2 * capacity : at_first;
    return grown > need ? grown : need;
}

/* Lets an array (`at`: its pointer) have `n` elements, if the rows have it at all. */
static bool resize(void *at, bool wanted, size_t n, size_t bytes)
{
    void *old;
    memcpy(&old, at, sizeof(old));
    if (!wanted) {
        return true;
    }
    void *array = reallocarray(old, n, bytes);
    if (array != NULL) {
        memcpy(at, &array, sizeof(array));
    }
    return array != NULL;
}

static bool grow_records(struct coxi_rows *rows, size_t n)
{
    unsigned has = rows->shape.has;
    uint32_t n_dense = rows->shape.n_dense;
    bool first = rows->begin == NULL;
    bool grown =
        resize(&rows->offsets, true, n, sizeof(*rows->offsets)) &&
        resize(&rows->labels, (has & COXI_HAS_LABELS) != 0, n, sizeof(float)) &&
        resize(&rows->weights, (has & COXI_HAS_WEIGHTS) != 0, n, sizeof(float)) &&
        resize(&rows->begin, (has & COXI_HAS_FEATURES) != 0, n + 1, sizeof(uint64_t)) &&
        resize(&rows->dense, n_dense > 0, n, n_dense * sizeof(float)) &&
        resize(&rows->bytes, (has & COXI_HAS_BYTES) != 0, n, sizeof(struct cox_bytes));
    if (rows->begin != NULL && first) {
        rows->begin[0] = 0;
    }
    rows->capacity = grown ? n : rows->capacity;
    return grown;
}

static bool grow_features(struct coxi_rows *rows, size_t n)
{
    unsigned has = rows->shape.has;
    bool grown =
        resize(&rows->keys, (has & COXI_HAS_FEATURES) != 0, n, sizeof(uint64_t)) &&
        resize(&rows->values, (has & COXI_HAS_VALUES) != 0, n, sizeof(float)) &&
        resize(&rows->fields, (has & COXI_HAS_FIELDS) != 0, n, sizeof(uint32_t));
    rows->feature_capacity = grown ? n : rows->feature_capacity;
    return grown;
}

int coxi_rows_grow(struct coxi_rows *rows, size_t records, size_t features)
{
    size_t n = rows->n + records;
    size_t n_features = rows->n_features + features;
    bool grown = true;
    if (n > rows->capacity) {
        grown = grow_records(rows, enough(rows->capacity, RECORDS_AT_FIRST, n));
    }
    if (grown && n_features > rows->feature_capacity) {
        grown = grow_features(
            rows, enough(rows->feature_capacity, FEATURES_AT_FIRST, n_features));
    }
    return grown ? 0 : coxi_error_memory("a batch");
}

int coxi_rows_hold(struct coxi_rows *rows, struct coxi_block *block)
{
    if (rows->n_blocks > 0 && rows->blocks[rows->n_blocks - 1] == block) {
        return 0;
    }
    if (rows->n_blocks == rows->block_capacity) {
        size_t capacity = enough(rows->block_capacity, 8, 0);
        if (!resize((void *)&rows->blocks, true, capacity,
                    sizeof(struct coxi_block *))) {
            return coxi_error_memory("a batch");
        }
        rows->block_capacity = capacity;
    }
    block->refs++;
    rows->blocks[rows->n_blocks++] = block;
    return 0;
}

uint8_t *coxi_rows_copy_room(struct coxi_rows *rows, size_t len)
{
    if (rows->copies == NULL || rows->copies->capacity - rows->copied < len) {
        struct coxi_block *block =
            coxi_block_new(rows->pool, len > COPY_BYTES ? len : COPY_BYTES);
        if (block == NULL || coxi_rows_hold(rows, block) != 0) {
            coxi_block_unref(rows->pool, block);
            return NULL;
        }
        coxi_block_unref(rows->pool, block); /* the rows hold it */
        rows->copies = block;
        rows->copied = 0;
    }
    uint8_t *room = rows->copies->data + rows->copied;
    rows->copied += len;
    return room;
}

static void copy_features(struct coxi_rows *to, const struct coxi_rows *from,
                          size_t first, size_t n)
{
    size_t at = to->n_features;
    memcpy(to->keys + at, from->keys + first, n * sizeof(*to->keys));
    if (to->values != NULL) {
        memcpy(to->values + at, from->values + first, n * sizeof(*to->values));
    }
    if (to->fields != NULL) {
        memcpy(to->fields + at, from->fields + first, n * sizeof(*to->fields));
    }
}

static int copy_record(struct coxi_rows *to, const struct coxi_rows *from, size_t r)
{
    size_t first = from->begin != NULL ? from->begin[r] : 0;
    size_t n = from->begin != NULL ? from->begin[r + 1] - first : 0;
    size_t n_dense = to->shape.n_dense;
    int code = coxi_rows_reserve(to, 1, n);
    if (code != 0) {
        return code;
    }
    if (to->labels != NULL) {
        to->labels[to->n] = from->labels[r];
    }
    if (to->weights != NULL) {
        to->weights[to->n] = from->weights[r];
    }
    if (to->bytes != NULL) {
        to->bytes[to->n] = from->bytes[r];
    }
    if (n_dense > 0) {
        memcpy(to->dense + to->n * n_dense, from->dense + r * n_dense,
               n_dense * sizeof(*to->dense));
    }
    if (n > 0) {
        copy_features(to, from, first, n);
    }
    coxi_rows_commit(to, from->offsets[r], n);
    return 0;
}

int coxi_rows_gather(struct coxi_rows *to, const struct coxi_rows *from,
                     const uint32_t *numbers, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n_blocks; i++) {
        r = coxi_rows_hold(to, from->blocks[i]);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = copy_record(to, from, numbers[i]);
    }
    return r;
}

size_t coxi_rows_bytes(const struct coxi_rows *rows)
{
    size_t feature = sizeof(uint64_t) + sizeof(float) + sizeof(uint32_t);
    size_t record = 4 * sizeof(uint64_t) + rows->shape.n_dense * sizeof(float);
    return rows->n * record + rows->n_features * feature + rows->n_bytes;
}

void coxi_rows_batch(const struct coxi_rows *rows, struct cox_batch *ret)
{
    ret->size = sizeof(*ret);
    ret->n = rows->n;
    ret->labels = rows->labels;
    ret->weights = rows->weights;
    ret->begin = rows->begin;
    ret->keys = rows->keys;
    ret->values = rows->values;
    ret->fields = rows->fields;
    ret->dense = rows->dense;
    ret->n_dense = rows->shape.n_dense;
    ret->bytes = rows->bytes;
    ret->offset = rows->n > 0 ? rows->offsets[0] : 0;
}
