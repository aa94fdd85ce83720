/* Reads and updates ranges of rows of a dense shard; reads the content of cuts. */
#ifndef COXI_TESTS_PS_ROWS_H
#define COXI_TESTS_PS_ROWS_H

#include <stdlib.h>
#include <string.h>

#include "ps/dense.h"
#include "ps/table.h"
#include "tests/test.h"

static inline void read_rows(struct coxi_dense *dense,
                             const struct coxi_variable *variable, uint64_t begin,
                             uint64_t count, void *ret)
{
    const struct coxi_dense_rows rows = {NULL, begin, count};
    coxi_dense_read(dense, &rows, 0, count * coxi_variable_row_bytes(variable), 0, ret);
}

static inline void update_rows(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                               enum coxi_op op, const void *values)
{
    const struct coxi_dense_rows rows = {NULL, begin, count};
    coxi_dense_update(dense, &rows, op, coxi_dense_step(dense),
                      1 /* COX_F32, of gradients */, values);
}

/* The value of an element after an update with any `op` except a gradient. */
static inline double written(enum coxi_op op, double old, double value)
{
    switch (op) {
    case COXI_OP_ADD:
        return old + value;
    case COXI_OP_ASSIGN:
        return value;
    case COXI_OP_MIN:
        return value < old ? value : old;
    case COXI_OP_MAX:
        return value > old ? value : old;
    case COXI_OP_GRADIENT:
    case COXI_OP_RATE:
    case COXI_OP_ROUND:
    case COXI_OP_COMPENSATED:
        return old;
    }
    return old;
}

typedef int (*row_visit)(void *arg, uint64_t key, const float *values,
                         const float *state, const struct coxi_row_life *life);

/* Calls `visit` for each row of a table, which nobody changes, until it returns
 * something other than 0; returns that, or 0. */
static inline int visit_rows(struct coxi_table *table, row_visit visit, void *arg)
{
    struct coxi_table_cut *cut;
    assert_code(0, coxi_table_cut_new(table, &cut));
    coxi_table_cut_begin(cut, false);
    const struct coxi_cut_layout layout = coxi_table_cut_layout(cut);
    uint8_t *room = malloc(layout.n_most * layout.stride);
    int r = 0;
    for (int more = 1; r == 0 && more == 1;) {
        size_t n = 0;
        more = coxi_table_cut_next(cut, room, &n);
        assert_true(more >= 0 && n <= layout.n_most);
        for (size_t i = 0; r == 0 && i < n; i++) {
            const uint8_t *row = room + i * layout.stride;
            r = visit(arg, *(const uint64_t *)(const void *)row,
                      (const float *)(const void *)(row + layout.values),
                      (const float *)(const void *)(row + layout.state),
                      layout.life > 0 ? (const void *)(row + layout.life) : NULL);
        }
    }
    free(room);
    coxi_table_cut_end(cut);
    coxi_table_cut_free(cut);
    return r;
}

/* An array of a shard, which nobody changes: 0: the elements, 1 + i: the i-th state.
 * For free(). */
static inline void *read_array(struct coxi_dense *dense, size_t array, size_t bytes)
{
    static uint8_t room[COXI_DENSE_CUT_ROOM];
    struct coxi_dense_piece piece = {.n = 1};
    struct coxi_dense_cut *cut;
    uint8_t *found = malloc(bytes + 1);
    size_t len = 0;
    assert_code(0, coxi_dense_cut_new(dense, &cut));
    coxi_dense_cut_begin(cut);
    while (piece.n > 0) {
        assert_code(0, coxi_dense_cut_next(cut, room, &piece));
        if (array >= piece.first && array < piece.first + piece.n) {
            assert_true(len + piece.bytes <= bytes);
            memcpy(found + len, room + (array - piece.first) * piece.bytes,
                   piece.bytes);
            len += piece.bytes;
        }
    }
    assert_int_equal(bytes, len);
    coxi_dense_cut_end(cut);
    coxi_dense_cut_free(cut);
    return found;
}

#endif
