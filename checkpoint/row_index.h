/*
 * An index: finds the rows of a table in a checkpoint by key, in all shards. The rows
 * stay in the checkpoint's files. Immutable once made; any number of threads may read
 * it.
 */
#ifndef COXI_CHECKPOINT_ROW_INDEX_H
#define COXI_CHECKPOINT_ROW_INDEX_H

#include "checkpoint/checkpoint.h"

struct coxi_row_index {
    const struct coxi_whole *values;
    size_t row_bytes;
    uint64_t *rows; /* open addressing, at most half full; 1 + the row; 0: free */
    uint64_t *keys;
    size_t capacity; /* a power of two */
    uint64_t n_rows;
};

/* Makes the index of a table. The checkpoint must outlive the index. Takes 32 to 64
 * bytes for each row. COX_ENOMEM; errors of coxi_st_read. */
int coxi_row_index_init(struct coxi_row_index *index,
                        const struct coxi_checkpoint *checkpoint,
                        const struct coxi_variable *table);
void coxi_row_index_fini(struct coxi_row_index *index); /* takes a zeroed one */

/* Reads the row of that key into `ret`; *ret_found false: there is none. Errors of
 * coxi_st_read. Cost: a system call, unless the row lies in memory. */
int coxi_row_index_read(const struct coxi_row_index *index, uint64_t key, float *ret,
                        bool *ret_found);

#endif
