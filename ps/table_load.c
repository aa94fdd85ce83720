/* Loads rows of a checkpoint into a table (ps/table.h), for restores and loads. */
#include <string.h>

#include "ps/table_internal.h"

enum { GROUP = 64 }; /* keys whose lines are prefetched before the first is looked up */

/* Loads the state of row `i`, kind by kind. */
static void load_state(const struct coxi_table *table,
                       const struct coxi_table_rows *rows, uint64_t i, float *state)
{
    const struct coxi_state_layout *layout = &table->layout;
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        size_t n = s < layout->n_slots ? table->dim : 1;
        memcpy(state, rows->states[s] + i * n, n * sizeof(*state));
        state += n;
    }
}

static void load_life(const struct coxi_table_rows *rows, uint64_t i,
                      struct coxi_row_life *life)
{
    life->last = rows->last[i] + rows->later;
    life->made = rows->made[i] + rows->later;
    life->updates = (uint32_t)rows->updates[i];
}

/* Loads row `i`. Its bucket is locked. */
static void load_row(const struct coxi_table *table, const struct coxi_table_rows *rows,
                     uint64_t i, float *values)
{
    memcpy(values, rows->values + i * table->dim, table->value_bytes);
    if (rows->states[0] != NULL) {
        load_state(table, rows, i, values + table->dim);
    }
    if (table->life_at > 0 && rows->last != NULL) {
        load_life(rows, i, coxi_table_life(table, values));
    }
}

/* Makes the row of an absent key; sets the state and life that `rows` lack. */
static int make_row(struct coxi_table *table, struct coxi_bucket *bucket,
                    const struct coxi_table_rows *rows, uint64_t key, uint64_t hash,
                    uint32_t *ret) COXI_REQUIRES(bucket->lock)
{
    int r = coxi_table_make_row(table, bucket, key, hash, ret);
    if (r != 0) {
        return r;
    }
    float *values = coxi_table_values(table, *ret);
    if (rows->states[0] == NULL) {
        coxi_table_start_state(table, values + table->dim);
    }
    if (table->life_at > 0) {
        coxi_table_start_life(table, values);
    }
    return 0;
}

/* Finds or makes the row of a key, and loads it; adds 1 to *made if the row was
 * made. */
static int put_row(struct coxi_table *table, const struct coxi_table_rows *rows,
                   uint64_t i, uint64_t *made)
{
    uint64_t key = rows->keys[i];
    uint64_t hash = coxi_hash_key(key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    int r = 0;
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row != 0) {
        (void)coxi_table_reach_row(table, key, row);
    } else {
        r = make_row(table, bucket, rows, key, hash, &row);
        *made += r == 0 ? 1 : 0;
    }
    if (r == 0) {
        load_row(table, rows, i, coxi_table_values(table, row));
    }
    coxi_spin_unlock(&bucket->lock);
    return r;
}

/* Counts the keys that have no row. */
static uint64_t count_absent(struct coxi_table *table, const uint64_t *keys, size_t n)
{
    uint64_t hashes[GROUP];
    uint64_t n_absent = 0;
    for (size_t i = 0; i < n; i++) {
        hashes[i] = coxi_hash_key(keys[i]);
        (void)coxi_index_begin(&table->index,
                               &coxi_table_bucket(table, hashes[i])->index, hashes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        struct coxi_bucket *bucket = coxi_table_bucket(table, hashes[i]);
        coxi_spin_lock(&bucket->lock);
        n_absent +=
            coxi_index_find(&table->index, &bucket->index, keys[i], hashes[i]) == 0 ? 1
                                                                                    : 0;
        coxi_spin_unlock(&bucket->lock);
    }
    return n_absent;
}

/* Loads n rows. If a row is dropped after count_absent has seen it, making it again
 * exceeds the reservation; the next reservation makes up for that. */
static int load_group(struct coxi_table *table, const struct coxi_table_rows *rows,
                      uint64_t first, size_t n)
{
    uint64_t n_absent = count_absent(table, rows->keys + first, n);
    uint64_t n_made = 0;
    int r = n_absent > 0 ? coxi_table_reserve_rows(table, n_absent) : 0;
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = put_row(table, rows, first + i, &n_made);
    }
    if (n_absent > 0 || n_made > 0) {
        coxi_table_settle_rows(table, n_absent, n_made);
    }
    return r;
}

int coxi_table_load(struct coxi_table *table, const struct coxi_table_rows *rows)
{
    int r = 0;
    for (uint64_t at = 0; r == 0 && at < rows->n; at += GROUP) {
        size_t n = rows->n - at < GROUP ? rows->n - at : GROUP;
        r = load_group(table, rows, rows->first + at, n);
    }
    return r;
}

void coxi_table_tidy(struct coxi_table *table, size_t n)
{
    coxi_eviction_tidy(table, n);
}

void coxi_table_expect(struct coxi_table *table, uint64_t n)
{
    const uint32_t each[] = {1, (uint32_t)(n / COXI_BUCKETS)};
    bool empty = coxi_table_rows(table) == 0;
    for (size_t pass = 0; empty && n >= COXI_BUCKETS && pass < 2; pass++) {
        for (size_t b = 0; b < COXI_BUCKETS; b++) {
            coxi_index_expect(&table->index, &table->buckets[b].index, each[pass]);
        }
    }
}

void coxi_table_drop(struct coxi_table *table, const uint64_t *keys, size_t n)
{
    uint64_t n_gone = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = coxi_hash_key(keys[i]);
        struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
        coxi_spin_lock(&bucket->lock);
        uint32_t row = coxi_index_remove(&table->index, &bucket->index, keys[i], hash);
        if (row != 0) {
            coxi_table_give_row(table, bucket, row);
            n_gone++;
        }
        coxi_spin_unlock(&bucket->lock);
    }
    coxi_table_count_gone(table, n_gone);
}

void coxi_table_raise_step(struct coxi_table *table, uint64_t step)
{
    uint64_t now = atomic_load(&table->step);
    while (now < step && !atomic_compare_exchange_weak(&table->step, &now, step)) {
    }
}
