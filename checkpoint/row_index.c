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
    while (index->rows[i] != 0 && index->keys[i] != key) {
        i = (i + 1) & (index->capacity - 1);
    }
    return i;
}

/* Puts the keys of a piece, whose first row is `row`. */
struct putting {
    struct coxi_row_index *index;
    uint64_t row;
};

static int put_keys(void *arg, const void *data, size_t len)
{
    struct putting *putting = arg;
    const uint64_t *keys = data;
    for (size_t k = 0; k < len / sizeof(*keys); k++) {
        size_t i = place_of(putting->index, keys[k]);
        putting->index->keys[i] = keys[k];
        putting->index->rows[i] = 1 + putting->row++;
    }
    return 0;
}

int coxi_row_index_init(struct coxi_row_index *index,
                        const struct coxi_checkpoint *checkpoint,
                        const struct coxi_variable *table)
{
    const struct coxi_whole *keys = coxi_checkpoint_find(checkpoint, table, "keys");
    int r = 0;
    *index = (struct coxi_row_index){
        .values = coxi_checkpoint_find(checkpoint, table, "values"),
        .row_bytes = coxi_table_dim(table) * sizeof(float),
        .capacity = 16,
        .n_rows = keys->shape[0]};
    while (index->capacity < index->n_rows * 2) {
        index->capacity *= 2;
    }
    index->rows = calloc(index->capacity, sizeof(*index->rows));
    index->keys = calloc(index->capacity, sizeof(*index->keys));
    if (index->rows == NULL || index->keys == NULL) {
        r = coxi_error_memory("a table's index");
    }
    for (size_t i = 0; r == 0 && i < keys->n_pieces; i++) {
        const struct coxi_piece *piece = &keys->pieces[i];
        struct putting putting = {index, piece->begin};
        r = coxi_st_stream(checkpoint->shards[piece->ps], piece->tensor, put_keys,
                           &putting);
    }
    if (r != 0) {
        coxi_row_index_fini(index);
    }
    return r;
}

void coxi_row_index_fini(struct coxi_row_index *index)
{
    free(index->rows);
    free(index->keys);
    *index = (struct coxi_row_index){0};
}

/* The piece of the values that has the row. */
static const struct coxi_piece *piece_of(const struct coxi_whole *values, uint64_t row)
{
    size_t begin = 0;
    size_t end = values->n_pieces;
    while (end - begin > 1) {
        size_t middle = begin + (end - begin) / 2;
        if (values->pieces[middle].begin <= row) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    return &values->pieces[begin];
}

int coxi_row_index_read(const struct coxi_row_index *index, uint64_t key, float *ret,
                        bool *ret_found)
{
    uint64_t row = index->capacity > 0 ? index->rows[place_of(index, key)] : 0;
    *ret_found = row != 0;
    if (row == 0) {
        return 0;
    }
    const struct coxi_piece *piece = piece_of(index->values, row - 1);
    return coxi_st_read(piece->tensor, (row - 1 - piece->begin) * index->row_bytes, ret,
                        index->row_bytes);
}
