/*
 * Going on where a client before this one has ended: with its checkpoint directory, from the
 * newest checkpoint in it. Every ps is set back to that, in place; variables are there again by
 * name; what the checkpoint's backlog has (common/backlog.h) is done.
 */
#ifndef COXI_COORDINATOR_RESUME_H
#define COXI_COORDINATOR_RESUME_H

#include "coordinator/coordinator.h"

/* Claims the checkpoint directory: the run's id and generation are known then. COX_EEXIST: it
 * has been used, and that is not wanted; as coxi_generation_claim. */
int coxi_resume_claim(struct cox_coordinator *c);

/*
 * When the ps are claimed: sets them, and this client, back to the newest checkpoint, if there
 * is one. COX_ECONFLICT: of another number of ps; COX_ECHECKSUM, COX_EFORMAT, COX_EIO: it
 * cannot be loaded; COX_EPSLOST.
 */
int coxi_resume(struct cox_coordinator *c);
void coxi_resume_free(struct cox_coordinator *c);

/*
 * The program schedules or waits: what is left to be run may run now, as far as its functions
 * are loaded. Returns one that is not (it has names, and lives until close), or NULL. Any
 * thread, with c->lock.
 */
const struct cox_function *coxi_resume_go_on(struct cox_coordinator *c);

/* A variable that is wanted and one of that name that has been found: 0 where they are the
 * same, but for where it lies. COX_ECONFLICT. */
int coxi_resume_match(const struct coxi_variable *wanted, uint32_t n_shards,
                      const struct coxi_variable *found);

#endif
