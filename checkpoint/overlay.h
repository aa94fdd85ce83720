/*
 * An overlay: shards that build on each other (ps/snapshot_plan.h), read as one whole
 * file. It has the newest version of each row of a table and of each dense variable,
 * without the rows that were dropped.
 */
#ifndef COXI_CHECKPOINT_OVERLAY_H
#define COXI_CHECKPOINT_OVERLAY_H

#include "checkpoint/safetensors.h"

/* How tables whose rows lie in several files are read. */
enum coxi_overlay_rows {
    COXI_OVERLAY_NEWEST,    /* only the newest file's rows: for names and types */
    COXI_OVERLAY_IN_MEMORY, /* put together in memory */
    COXI_OVERLAY_STREAMED,  /* put together by each coxi_st_stream() */
};

/*
 * Makes an overlay of n files: a whole one, then those that build on it. If this
 * succeeds, the overlay owns the files. Its metadata are those of the newest.
 * COX_ENOMEM; COX_EFORMAT: the files do not fit together.
 */
int coxi_overlay_open(struct coxi_st_file *const *files, size_t n,
                      enum coxi_overlay_rows rows, struct coxi_st_file **ret);

#endif
