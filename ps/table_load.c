/* Rows of a table as a snapshot has them (ps/table.h): what only a restore sets. */
#include <string.h>

#include "ps/table_internal.h"

enum { ROWS_MAX = 4096 };

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

int coxi_table_load(struct coxi_table *table, const struct coxi_table_rows *rows)
{
    struct coxi_row *made[ROWS_MAX];
    const struct coxi_table_change change = {
        .op = COXI_OP_ASSIGN,
        .keys = rows->keys + rows->first,
        .n = rows->n,
        .values = rows->values + rows->first * table->dim,
        .rows = made,
    };
    int r = coxi_table_resolve(table, &change);
    if (r != 0) {
        return r;
    }
    for (size_t k = 0; k < rows->n; k++) {
        uint64_t i = rows->first + k;
        float *values = (float *)made[k];
        memcpy(values, change.values + k * table->dim, table->value_bytes);
        load_state(table, rows, i, values + table->dim);
        if (table->life_at > 0) {
            struct coxi_row_life *life = coxi_table_life(table, values);
            life->last = rows->last[i];
            life->made = rows->made[i];
            life->updates = (uint32_t)rows->updates[i];
        }
    }
    coxi_table_release(table, &change);
    return 0;
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

void coxi_table_set_step(struct coxi_table *table, uint64_t step)
{
    atomic_store(&table->step, step);
}
