/*
 * An index: finds the rows of a table in a checkpoint by key, in all shards. The rows
 * stay in the checkpoint's memory map. Immutable once made; any number of threads may
 * read it.
 */
#ifndef COXI_CHECKPOINT_ROW_INDEX_H
#define COXI_CHECKPOINT_ROW_INDEX_H

#include "checkpoint/checkpoint.h"

struct coxi_row_index {
    const float **rows; /* open addressing, at most half full; NULL: free */
    uint64_t *keys;
    size_t capacity; /* a power of two */
    uint64_t n_rows;
};

/* Makes the index of a table. The checkpoint must outlive the index. Takes 32 to 64
 * bytes for each row. COX_ENOMEM. */
int coxi_row_index_init(struct coxi_row_index *index,
                        const struct coxi_checkpoint *checkpoint,
                        const struct coxi_variable *table);
void coxi_row_index_fini(struct coxi_row_index *index); /* takes a zeroed one */

/* The row of that key, or NULL. */
const float *coxi_row_index_find(const struct coxi_row_index *index, uint64_t key);

#endif
