/*
 * See table.h. A row is its values and then the optimizer's state, no more: keys are in
 * the index. Rows lie in one stretch of memory for all buckets (ps/stretch.h); a bucket
 * takes a few at a time.
 *
 * What costs time is waiting for memory: a key's line of the index, then its row. So keys
 * are taken in groups: first it is asked for the lines of all, then these are looked into
 * and asked is for the rows, and only then is one bucket after the other locked and worked
 * in. The first two look without the lock and may be wrong; nothing depends on them but
 * speed.
 *
 * Cost of a key: an exchange and a store for the lock, two or three cache lines. Memory:
 * a row's floats, about 23 bytes in the index, and at most a sixteenth more rows than
 * there are.
 */
#include "ps/table.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/initializer.h"
#include "ps/elements.h"
#include "ps/index.h"
#include "ps/optimizer.h"
#include "ps/spin.h"

enum {
    GROUP = 64, /* keys whose memory is asked for before the first is worked on */
    AHEAD = 32, /* the same of rows that are known */
    LINE_BYTES = 64,
    HINT_LINES = 4, /* asked for of a row */
    STEPS = 3,      /* lines of a chain that are asked for */
    RUN_MAX = 64,
    INDEX_ROW_BYTES = 23,
};

struct bucket {
    alignas(LINE_BYTES) struct coxi_spin lock; /* guards all below, the rows; leaf */
    struct coxi_index_bucket index;
    uint32_t run;   /* the next of the rows that it may make without asking ... */
    uint32_t n_run; /* ... and how many these are */
};

struct coxi_table {
    const struct coxi_variable *variable;
    size_t dim;
    size_t value_bytes;
    size_t row_bytes;
    struct coxi_state_layout layout;
    struct coxi_index index;
    struct coxi_stretch rows;
    atomic_uint_least64_t step;
    atomic_uint_least64_t n_rows;
    atomic_uint_least64_t n_lookups;
    atomic_uint_least64_t n_hits;
    struct bucket buckets[COXI_BUCKETS];
};

int coxi_table_new(const struct coxi_variable *variable, struct coxi_table **ret)
{
    struct coxi_table *table =
        aligned_alloc(alignof(struct coxi_table), sizeof(*table));
    if (table == NULL) {
        return coxi_error_memory("a table");
    }
    memset(table, 0, sizeof(*table));
    table->variable = variable;
    table->dim = coxi_table_dim(variable);
    table->layout = coxi_optimizer_layout(variable);
    size_t floats = table->dim * (1 + table->layout.n_slots) + table->layout.n_row;
    table->value_bytes = table->dim * sizeof(float);
    table->row_bytes = floats * sizeof(float);
    coxi_index_init(&table->index);
    coxi_stretch_init(&table->rows, table->row_bytes);
    *ret = table;
    return 0;
}

void coxi_table_free(struct coxi_table *table)
{
    if (table != NULL) {
        coxi_stretch_fini(&table->rows);
        coxi_index_fini(&table->index);
        free(table);
    }
}

/* ---- ahead of time: without locks, for nothing but speed */

static struct bucket *bucket_of(struct coxi_table *table, uint64_t hash)
{
    return &table->buckets[coxi_hash_bucket(hash)];
}

static float *values_at(const struct coxi_table *table, uint32_t row)
{
    return (float *)(void *)coxi_stretch_at(&table->rows, row);
}

static void hint_bytes(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < (size_t)HINT_LINES * LINE_BYTES;
         i += LINE_BYTES) {
        __builtin_prefetch((const uint8_t *)at + i);
    }
}

/* Asks for the index lines of a group of keys and then, where `rows` is set, for their
 * rows. */
static void hint(struct coxi_table *table, const uint64_t *keys, size_t n, bool rows)
{
    const struct coxi_line *lines[GROUP];
    uint32_t at[GROUP];
    size_t n_open = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = coxi_hash_key(keys[i]);
        lines[n_open] =
            coxi_index_begin(&table->index, &bucket_of(table, hash)->index, hash);
        at[n_open] = (uint32_t)i;
        n_open += lines[n_open] != NULL ? 1 : 0;
    }
    for (size_t step = 0; step < STEPS && n_open > 0; step++) {
        size_t n_left = 0;
        for (size_t i = 0; i < n_open; i++) {
            const struct coxi_line *line = lines[i];
            uint32_t row = coxi_index_peek(&table->index, &line, keys[at[i]]);
            if (row != 0 && rows) {
                hint_bytes(values_at(table, row), table->value_bytes);
            }
            lines[n_left] = line;
            at[n_left] = at[i];
            n_left += row == 0 && line != NULL ? 1 : 0;
        }
        n_open = n_left;
    }
}

/* ---- reading */

/* The values of an absent row; `ret` may not be aligned for floats. */
static void copy_initial(const struct coxi_table *table, uint64_t key, uint8_t *ret)
{
    float values[COXI_TABLE_DIM_MAX];
    coxi_initializer_row(&table->variable->initializer, key, values, table->dim);
    memcpy(ret, values, table->value_bytes);
}

/* Copies the row of a key; false: the initial values. */
static bool pull_row(struct coxi_table *table, uint64_t key, uint8_t *ret)
{
    uint64_t hash = coxi_hash_key(key);
    struct bucket *bucket = bucket_of(table, hash);
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row != 0) {
        memcpy(ret, values_at(table, row), table->value_bytes);
    }
    coxi_spin_unlock(&bucket->lock);
    if (row == 0) {
        copy_initial(table, key, ret);
    }
    return row != 0;
}

void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret)
{
    uint64_t n_hits = 0;
    for (size_t first = 0; first < n; first += GROUP) {
        size_t end = n - first < GROUP ? n : first + GROUP;
        hint(table, keys + first, end - first, true);
        for (size_t i = first; i < end; i++) {
            uint8_t *to = (uint8_t *)ret + i * table->value_bytes;
            n_hits += pull_row(table, keys[i], to) ? 1 : 0;
        }
    }
    atomic_fetch_add_explicit(&table->n_lookups, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->n_hits, n_hits, memory_order_relaxed);
}

/* ---- making rows */

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

/* Makes sure that the bucket has memory for a row. Locked. */
static int provide_row(struct coxi_table *table, struct bucket *bucket)
{
    if (bucket->n_run > 0) {
        return 0;
    }
    uint32_t n = bucket->index.n_keys / 16 + 1;
    n = n < RUN_MAX ? n : RUN_MAX;
    int r = coxi_stretch_take(&table->rows, n, &bucket->run);
    bucket->n_run = r == 0 ? n : 0;
    return r;
}

/* The row of a key, made where there is none. Locked. */
static int make_row(struct coxi_table *table, struct bucket *bucket, uint64_t key,
                    uint64_t hash, struct coxi_row **ret)
{
    int r = provide_row(table, bucket);
    if (r == 0) {
        r = coxi_index_put(&table->index, &bucket->index, key, hash, bucket->run);
    }
    if (r != 0) {
        return coxi_error(r, "table '%s': %s", table->variable->name,
                          coxi_error_text());
    }
    float *values = values_at(table, bucket->run);
    coxi_initializer_row(&table->variable->initializer, key, values, table->dim);
    start_state(table, values + table->dim);
    bucket->run++;
    bucket->n_run--;
    atomic_fetch_add_explicit(&table->n_rows, 1, memory_order_relaxed);
    *ret = (struct coxi_row *)values;
    return 0;
}

static int resolve_row(struct coxi_table *table, uint64_t key, struct coxi_row **ret)
{
    uint64_t hash = coxi_hash_key(key);
    struct bucket *bucket = bucket_of(table, hash);
    int r = 0;
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row != 0) {
        *ret = (struct coxi_row *)values_at(table, row);
    } else {
        r = make_row(table, bucket, key, hash, ret);
    }
    coxi_spin_unlock(&bucket->lock);
    return r;
}

int coxi_table_resolve(struct coxi_table *table, enum coxi_op op, const uint64_t *keys,
                       size_t n, struct coxi_row **ret)
{
    int r = 0;
    (void)op;
    for (size_t first = 0; r == 0 && first < n; first += GROUP) {
        size_t end = n - first < GROUP ? n : first + GROUP;
        hint(table, keys + first, end - first, false);
        for (size_t i = first; r == 0 && i < end; i++) {
            r = resolve_row(table, keys[i], &ret[i]);
        }
    }
    return r;
}

/* ---- updating */

void coxi_table_update(struct coxi_table *table, enum coxi_op op, const uint64_t *keys,
                       struct coxi_row *const *rows, size_t n, const float *values)
{
    struct coxi_optimizer_step step = {0};
    if (op == COXI_OP_GRADIENT && n > 0) {
        coxi_optimizer_begin(&table->variable->optimizer,
                             atomic_fetch_add(&table->step, 1), &step);
    }
    for (size_t i = 0; i < n + AHEAD; i++) {
        if (i < n) {
            hint_bytes(rows[i], table->row_bytes);
        }
        if (i < AHEAD) {
            continue;
        }
        float *row = (float *)rows[i - AHEAD];
        const float *from = values + (i - AHEAD) * table->dim;
        struct bucket *bucket = bucket_of(table, coxi_hash_key(keys[i - AHEAD]));
        coxi_spin_lock(&bucket->lock);
        if (op == COXI_OP_GRADIENT) {
            coxi_optimizer_row(&step, row, row + table->dim, from, table->dim);
        } else {
            coxi_elements_combine(COX_F32, op, row, from, table->value_bytes);
        }
        coxi_spin_unlock(&bucket->lock);
    }
}

/* ---- numbers */

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
    return coxi_table_rows(table) * (table->row_bytes + INDEX_ROW_BYTES);
}

void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret)
{
    *ret = (struct coxi_table_counters){
        .lookups = atomic_load(&table->n_lookups),
        .hits = atomic_load(&table->n_hits),
        .admitted = coxi_table_rows(table),
        .updates = coxi_table_step(table),
        .rows = coxi_table_rows(table),
        .bytes = coxi_table_bytes(table),
    };
}

/* ---- visits */

struct visitor {
    const struct coxi_table *table;
    coxi_row_visit visit;
    void *arg;
};

static int ask_for_row(void *arg, uint64_t key, uint32_t row)
{
    const struct visitor *visitor = arg;
    (void)key;
    hint_bytes(values_at(visitor->table, row), visitor->table->row_bytes);
    return 0;
}

static int visit_row(void *arg, uint64_t key, uint32_t row)
{
    const struct visitor *visitor = arg;
    const float *values = values_at(visitor->table, row);
    return visitor->visit(visitor->arg, key, values, values + visitor->table->dim);
}

int coxi_table_each(struct coxi_table *table, coxi_row_visit visit, void *arg)
{
    struct visitor visitor = {table, visit, arg};
    int r = 0;
    for (size_t b = 0; r == 0 && b < COXI_BUCKETS; b++) {
        const struct coxi_index_bucket *bucket = &table->buckets[b].index;
        uint32_t n = atomic_load(&bucket->n_lines);
        for (uint32_t i = 0; r == 0 && i < n + AHEAD / 4; i++) {
            if (i < n) {
                r = coxi_index_each(&table->index, bucket, i, ask_for_row, &visitor);
            }
            if (r == 0 && i >= AHEAD / 4) {
                r = coxi_index_each(&table->index, bucket, i - AHEAD / 4, visit_row,
                                    &visitor);
            }
        }
    }
    return r;
}
