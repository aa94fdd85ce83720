/* Shared by the files of checkpoint/draft only: drafts in directories and in stores. */
#ifndef COXI_CHECKPOINT_DRAFT_INTERNAL_H
#define COXI_CHECKPOINT_DRAFT_INTERNAL_H

#include "checkpoint/draft.h"

int coxi_draft_file_begin(const struct coxi_draft *draft);
int coxi_draft_file_publish(const struct coxi_draft *draft,
                            const struct coxi_manifest *manifest);
int coxi_draft_file_delete(const char *path); /* ".../ckpt-3", also below */

int coxi_draft_store_begin(struct coxi_draft *draft);
int coxi_draft_store_publish(struct coxi_draft *draft,
                             const struct coxi_manifest *manifest);
void coxi_draft_store_drop(struct coxi_draft *draft);
int coxi_draft_store_delete(const char *path);
void coxi_draft_store_sweep(const char *path);

/* After a failure of publishing: it counts all the same if LATEST names the checkpoint, or if
 * nobody can say what LATEST names. */
bool coxi_draft_counts(const struct coxi_draft *draft);

#endif
