/*
 * See table.h. A bucket: an open-addressing index of 32-bit entries {tag 8, row + 1 24}
 * and the rows themselves in chunks, in the order of their making. The tag (8 bits of
 * the hash) spares most looks at rows that are not the one.
 *
 * Cost: a look-up touches one index line and one row. Memory: a row is its key, values
 * and state; the index adds 5 to 11 bytes a row, chunks up to CHUNK_ROWS - 1 unused
 * rows a bucket.
 */
#include "ps/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/initializer.h"
#include "common/sync.h"
#include "ps/elements.h"
#include "ps/optimizer.h"

enum {
    CHUNK_ROWS = 32,
    INDEX_FIRST = 16,
    ROWS_MAX = (1 << 24) - 2, /* in a bucket */
};

struct coxi_row {
    uint64_t key;
    float values[]; /* dim of them, then the optimizer's state */
};

struct bucket {
    pthread_mutex_t lock; /* guards all below and the rows' contents; leaf */
    uint32_t *index;
    uint32_t capacity; /* of the index: a power of two, or 0 */
    uint32_t n_rows;
    uint8_t **chunks;
    uint32_t n_chunks;
};

struct coxi_table {
    const struct coxi_variable *variable;
    size_t dim;
    struct coxi_state_layout layout;
    size_t row_bytes; /* of struct coxi_row, padded to 8 */
    atomic_uint_least64_t step;
    atomic_uint_least64_t n_rows;
    atomic_uint_least64_t index_bytes;
    struct bucket buckets[COXI_BUCKETS];
};

int coxi_table_new(const struct coxi_variable *variable, struct coxi_table **ret)
{
    struct coxi_table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return coxi_error_memory("a table");
    }
    table->variable = variable;
    table->dim = coxi_table_dim(variable);
    table->layout = coxi_optimizer_layout(variable);
    size_t floats = table->dim * (1 + table->layout.n_slots) + table->layout.n_row;
    table->row_bytes = (sizeof(struct coxi_row) + floats * sizeof(float) + 7) / 8 * 8;
    for (size_t i = 0; i < COXI_BUCKETS; i++) {
        (void)pthread_mutex_init(&table->buckets[i].lock, NULL);
    }
    *ret = table;
    return 0;
}

void coxi_table_free(struct coxi_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < COXI_BUCKETS; i++) {
        struct bucket *bucket = &table->buckets[i];
        for (uint32_t c = 0; c < bucket->n_chunks; c++) {
            free(bucket->chunks[c]);
        }
        free(bucket->chunks);
        free(bucket->index);
        (void)pthread_mutex_destroy(&bucket->lock);
    }
    free(table);
}

static struct coxi_row *row_at(const struct coxi_table *table,
                               const struct bucket *bucket, uint32_t row)
{
    return (struct coxi_row *)(bucket->chunks[row / CHUNK_ROWS] +
                               row % CHUNK_ROWS * table->row_bytes);
}

static uint32_t index_entry(uint64_t hash, uint32_t row)
{
    return (uint32_t)(hash >> 38 & 0xff) << 24 | (row + 1);
}

/* The row of `key`, or NULL. Locked. */
static struct coxi_row *find(const struct coxi_table *table,
                             const struct bucket *bucket, uint64_t key, uint64_t hash)
{
    if (bucket->capacity == 0) {
        return NULL;
    }
    uint32_t mask = bucket->capacity - 1;
    uint32_t tag = index_entry(hash, UINT32_MAX);
    for (uint32_t i = (uint32_t)hash & mask; bucket->index[i] != 0;
         i = (i + 1) & mask) {
        uint32_t entry = bucket->index[i];
        if (((entry ^ tag) >> 24) == 0) {
            struct coxi_row *row = row_at(table, bucket, (entry & 0xffffff) - 1);
            if (row->key == key) {
                return row;
            }
        }
    }
    return NULL;
}

static void put_index(uint32_t *index, uint32_t capacity, uint64_t hash, uint32_t row)
{
    uint32_t i = (uint32_t)hash & (capacity - 1);
    while (index[i] != 0) {
        i = (i + 1) & (capacity - 1);
    }
    index[i] = index_entry(hash, row);
}

/* Room in the index and in the last chunk for one more row. Locked. */
static int grow(struct coxi_table *table, struct bucket *bucket)
{
    if (bucket->n_rows == ROWS_MAX) {
        return coxi_error(COX_ELIMIT, "table '%s' is full", table->variable->name);
    }
    if (bucket->n_rows == bucket->n_chunks * CHUNK_ROWS) {
        uint32_t n = bucket->n_chunks;
        if ((n & (n - 1)) == 0) {
            uint8_t **chunks =
                realloc(bucket->chunks, (n == 0 ? 1 : (size_t)n * 2) * sizeof(*chunks));
            if (chunks == NULL) {
                return coxi_error_memory("rows of a table");
            }
            bucket->chunks = chunks;
        }
        bucket->chunks[n] = malloc(CHUNK_ROWS * table->row_bytes);
        if (bucket->chunks[n] == NULL) {
            return coxi_error_memory("rows of a table");
        }
        bucket->n_chunks++;
    }
    if (bucket->n_rows < bucket->capacity / 4 * 3) {
        return 0;
    }
    uint32_t capacity = bucket->capacity == 0 ? INDEX_FIRST : bucket->capacity * 2;
    uint32_t *index = calloc(capacity, sizeof(*index));
    if (index == NULL) {
        return coxi_error_memory("the index of a table");
    }
    for (uint32_t row = 0; row < bucket->n_rows; row++) {
        /* Every row below n_rows was made: NOLINTNEXTLINE(clang-analyzer-core.*) */
        put_index(index, capacity, coxi_hash_key(row_at(table, bucket, row)->key), row);
    }
    free(bucket->index);
    atomic_fetch_add(&table->index_bytes,
                     (capacity - bucket->capacity) * sizeof(*index));
    bucket->index = index;
    bucket->capacity = capacity;
    return 0;
}

static void start_state(const struct coxi_table *table, float *state)
{
    const struct coxi_state_layout *layout = &table->layout;
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        size_t n = s < layout->n_slots ? table->dim : 1;
        for (size_t i = 0; i < n; i++) {
            *state++ = layout->states[s].start;
        }
    }
}

/* Makes the row of an absent key. Locked. */
static int make(struct coxi_table *table, struct bucket *bucket, uint64_t key,
                uint64_t hash, struct coxi_row **ret)
{
    int r = grow(table, bucket);
    if (r != 0) {
        return r;
    }
    struct coxi_row *row = row_at(table, bucket, bucket->n_rows);
    row->key = key;
    coxi_initializer_row(&table->variable->initializer, key, row->values, table->dim);
    start_state(table, row->values + table->dim);
    put_index(bucket->index, bucket->capacity, hash, bucket->n_rows);
    bucket->n_rows++;
    atomic_fetch_add_explicit(&table->n_rows, 1, memory_order_relaxed);
    *ret = row;
    return 0;
}

/* The values of an absent row; `ret` may not be aligned for floats. */
static void copy_initial(const struct coxi_table *table, uint64_t key, uint8_t *ret)
{
    float values[COXI_TABLE_DIM_MAX];
    coxi_initializer_row(&table->variable->initializer, key, values, table->dim);
    memcpy(ret, values, table->dim * sizeof(*values));
}

void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret)
{
    size_t bytes = table->dim * sizeof(float);
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = coxi_hash_key(keys[i]);
        struct bucket *bucket = &table->buckets[coxi_hash_bucket(hash)];
        uint8_t *to = (uint8_t *)ret + i * bytes;
        coxi_lock(&bucket->lock);
        const struct coxi_row *row = find(table, bucket, keys[i], hash);
        if (row != NULL) {
            memcpy(to, row->values, bytes);
        }
        coxi_unlock(&bucket->lock);
        if (row == NULL) {
            copy_initial(table, keys[i], to);
        }
    }
}

int coxi_table_resolve(struct coxi_table *table, const uint64_t *keys, size_t n,
                       struct coxi_row **ret)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        uint64_t hash = coxi_hash_key(keys[i]);
        struct bucket *bucket = &table->buckets[coxi_hash_bucket(hash)];
        coxi_lock(&bucket->lock);
        ret[i] = find(table, bucket, keys[i], hash);
        if (ret[i] == NULL) {
            r = make(table, bucket, keys[i], hash, &ret[i]);
        }
        coxi_unlock(&bucket->lock);
    }
    return r;
}

void coxi_table_update(struct coxi_table *table, struct coxi_row *const *rows, size_t n,
                       enum coxi_op op, const float *values)
{
    struct coxi_optimizer_step step = {0};
    if (op == COXI_OP_GRADIENT && n > 0) {
        coxi_optimizer_begin(&table->variable->optimizer,
                             atomic_fetch_add(&table->step, 1), &step);
    }
    for (size_t i = 0; i < n; i++) {
        struct coxi_row *row = rows[i];
        const float *from = values + i * table->dim;
        struct bucket *bucket =
            &table->buckets[coxi_hash_bucket(coxi_hash_key(row->key))];
        coxi_lock(&bucket->lock);
        if (op == COXI_OP_GRADIENT) {
            coxi_optimizer_row(&step, row->values, row->values + table->dim, from,
                               table->dim);
        } else {
            coxi_elements_combine(COX_F32, op, row->values, from,
                                  table->dim * sizeof(*from));
        }
        coxi_unlock(&bucket->lock);
    }
}

uint64_t coxi_table_rows(struct coxi_table *table)
{
    return atomic_load_explicit(&table->n_rows, memory_order_relaxed);
}

uint64_t coxi_table_step(struct coxi_table *table)
{
    return atomic_load(&table->step);
}

uint64_t coxi_table_bytes(struct coxi_table *table)
{
    return coxi_table_rows(table) * table->row_bytes + atomic_load(&table->index_bytes);
}

void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret)
{
    *ret = (struct coxi_table_counters){
        .admitted = coxi_table_rows(table),
        .updates = coxi_table_step(table),
        .rows = coxi_table_rows(table),
        .bytes = coxi_table_bytes(table),
    };
}

int coxi_table_each(struct coxi_table *table, coxi_row_visit visit, void *arg)
{
    int r = 0;
    for (size_t b = 0; b < COXI_BUCKETS; b++) {
        struct bucket *bucket = &table->buckets[b];
        coxi_lock(&bucket->lock);
        for (uint32_t i = 0; r == 0 && i < bucket->n_rows; i++) {
            const struct coxi_row *row = row_at(table, bucket, i);
            r = visit(arg, row->key, row->values, row->values + table->dim);
        }
        coxi_unlock(&bucket->lock);
    }
    return r;
}
