/* Rows of a table as a checkpoint has them (ps/table.h): what restores and loads set. */
#include <string.h>

#include "ps/table_internal.h"

/* The state of row `i` of all, kind by kind. */
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

/* Row `i` of all, which is there, and pinned where rows go. */
static void load_row(struct coxi_table *table, const struct coxi_table_rows *rows,
                     uint64_t i, float *values)
{
    struct coxi_bucket *bucket = coxi_table_bucket(table, coxi_hash_key(rows->keys[i]));
    coxi_spin_lock(&bucket->lock);
    memcpy(values, rows->values + i * table->dim, table->value_bytes);
    if (rows->states[0] != NULL) {
        load_state(table, rows, i, values + table->dim);
    }
    if (table->life_at > 0 && rows->last != NULL) {
        load_life(rows, i, coxi_table_life(table, values));
    }
    coxi_spin_unlock(&bucket->lock);
}

int coxi_table_load(struct coxi_table *table, const struct coxi_table_rows *rows)
{
    struct coxi_row *made[COXI_TABLE_LOAD_MAX];
    const struct coxi_table_change change = {
        .op = COXI_OP_ASSIGN,
        .keys = rows->keys + rows->first,
        .n = rows->n,
        .values = rows->values + rows->first * table->dim,
        .rows = made,
    };
    int r = coxi_table_resolve(table, &change);
    for (size_t k = 0; r == 0 && k < rows->n; k++) {
        load_row(table, rows, rows->first + k, (float *)made[k]);
    }
    if (r == 0) {
        coxi_table_release(table, &change);
    }
    return r;
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
