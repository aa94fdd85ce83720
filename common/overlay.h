/*
 * Shards that build on each other (ps/snapshot_plan.h), read as one file that is whole: of
 * each row of a table and of each dense variable what the newest has, without the rows that
 * went.
 */
#ifndef COXI_COMMON_OVERLAY_H
#define COXI_COMMON_OVERLAY_H

#include <stdbool.h>

#include "common/safetensors.h"

/*
 * Of n files, a whole one and then those that build on it; it owns them when this succeeds.
 * Its metadata are the newest's. Tables lie in memory of their own; without `rows` they are
 * those of the newest file alone, for whoever asks for names and types. COX_ENOMEM;
 * COX_EFORMAT: what the files have does not fit together.
 */
int coxi_overlay_open(struct coxi_st_file *const *files, size_t n, bool rows,
                      struct coxi_st_file **ret);

#endif
