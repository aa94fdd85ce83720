/* Rows of a dense shard, a range of them at a time. */
#ifndef COXI_TESTS_PS_ROWS_H
#define COXI_TESTS_PS_ROWS_H

#include "ps/dense.h"

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
    coxi_dense_update(dense, &rows, op, 1 /* COX_F32, of gradients */, values);
}

#endif
