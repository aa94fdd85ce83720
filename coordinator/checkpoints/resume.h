/*
 * Going on where a client before this one has ended: with its checkpoint directory, from the
 * newest checkpoint in it. Every ps is set back to that, in place; variables are there again by
 * name; what the checkpoint's backlog has (checkpoint/backlog.h) is done.
 */
#ifndef COXI_COORDINATOR_CHECKPOINTS_RESUME_H
#define COXI_COORDINATOR_CHECKPOINTS_RESUME_H

#include <time.h>

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

/* ---- resume_backlog.c, resume_order.c */

struct coxi_checkpoint;

/* Takes up what the checkpoint's backlog has; of it, does what the client before was writing
 * with no closure before it. `watermark`: the highest of a ps at the checkpoint. For coxi_resume. */
int coxi_resume_backlog(struct cox_coordinator *c,
                        const struct coxi_checkpoint *checkpoint, uint64_t watermark);

/* Its thread begins nothing more; false: it has not ended by then. Then waits for its end. */
bool coxi_resume_end(struct cox_coordinator *c, const struct timespec *until);
void coxi_resume_stop(struct cox_coordinator *c);

#endif
