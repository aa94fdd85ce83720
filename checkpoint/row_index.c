/* See row_index.h. Cost: O(rows) to make, O(1) to look up. */
#include "checkpoint/row_index.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/layout.h"

/* The place where the index has the key, or would have it. */
static size_t place_of(const struct coxi_row_index *index, uint64_t key)
{
    size_t i = coxi_hash_key(key) & (index->capacity - 1);
    while (index->rows[i] != NULL && index->keys[i] != key) {
        i = (i + 1) & (index->capacity - 1);
    }
    return i;
}

static void put_piece(struct coxi_row_index *index, const struct coxi_st_tensor *keys,
                      const struct coxi_st_tensor *values, size_t dim)
{
    for (uint64_t row = 0; row < keys->shape[0]; row++) {
        uint64_t key = ((const uint64_t *)keys->data)[row];
        size_t i = place_of(index, key);
        index->keys[i] = key;
        index->rows[i] = (const float *)values->data + row * dim;
    }
}

int coxi_row_index_init(struct coxi_row_index *index,
                        const struct coxi_checkpoint *checkpoint,
                        const struct coxi_variable *table)
{
    const struct coxi_whole *keys = coxi_checkpoint_find(checkpoint, table, "keys");
    const struct coxi_whole *values = coxi_checkpoint_find(checkpoint, table, "values");
    *index = (struct coxi_row_index){.capacity = 16, .n_rows = keys->shape[0]};
    while (index->capacity < index->n_rows * 2) {
        index->capacity *= 2;
    }
    index->rows = calloc(index->capacity, sizeof(float *));
    index->keys = calloc(index->capacity, sizeof(*index->keys));
    if (index->rows == NULL || index->keys == NULL) {
        coxi_row_index_fini(index);
        return coxi_error_memory("a table's index");
    }
    for (size_t i = 0; i < keys->n_pieces; i++) {
        put_piece(index, keys->pieces[i].tensor, values->pieces[i].tensor,
                  coxi_table_dim(table));
    }
    return 0;
}

void coxi_row_index_fini(struct coxi_row_index *index)
{
    free(index->rows);
    free(index->keys);
    *index = (struct coxi_row_index){0};
}

const float *coxi_row_index_find(const struct coxi_row_index *index, uint64_t key)
{
    return index->capacity > 0 ? index->rows[place_of(index, key)] : NULL;
}
