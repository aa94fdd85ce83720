/* Data sets in checkpoints. */
#ifndef COXI_COORDINATOR_DATASETS_SAVED_H
#define COXI_COORDINATOR_DATASETS_SAVED_H

#include "checkpoint/manifest.h"
#include "coordinator/closures/closure.h"

/*
 * Stores the data sets in a manifest that covers the closures up to
 * manifest->progress.closure. Loop, in the turn that collects the backlog. COX_ENOMEM.
 */
int coxi_datasets_save(struct cox_coordinator *c, struct coxi_manifest *manifest);

/* A settled closure is in the manifest's backlog: the next client runs it again, and
 * counts its task then. So the manifest does not count it. Loop. */
void coxi_datasets_uncount(const struct coxi_closure *closure,
                           struct coxi_manifest *manifest);

/* Makes the data sets of a checkpoint, before its backlog is taken over. COX_EFORMAT,
 * COX_ENOMEM. */
int coxi_datasets_load(struct cox_coordinator *c, const struct coxi_manifest *manifest);

/* A closure that an older client has left: if it has a task, that is under way again.
 * COX_EFORMAT, COX_ENOMEM. Loop. */
int coxi_datasets_adopt(struct coxi_closure *closure);

#endif
