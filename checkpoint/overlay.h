/*
 * Shards that build on each other (ps/snapshot_plan.h), read as one file that is whole: of
 * each row of a table and of each dense variable what the newest has, without the rows that
 * went.
 */
#ifndef COXI_CHECKPOINT_OVERLAY_H
#define COXI_CHECKPOINT_OVERLAY_H

#include "checkpoint/safetensors.h"

/* What becomes of the rows of tables that several files hold. */
enum coxi_overlay_rows {
    COXI_OVERLAY_NEWEST,    /* those of the newest file alone: for names and types */
    COXI_OVERLAY_IN_MEMORY, /* put together in memory of their own */
    COXI_OVERLAY_STREAMED,  /* put together by each coxi_st_stream() */
};

/*
 * Of n files, a whole one and then those that build on it; it owns them when this succeeds.
 * Its metadata are the newest's. COX_ENOMEM; COX_EFORMAT: what the files have does not fit
 * together.
 */
int coxi_overlay_open(struct coxi_st_file *const *files, size_t n,
                      enum coxi_overlay_rows rows, struct coxi_st_file **ret);

#endif
