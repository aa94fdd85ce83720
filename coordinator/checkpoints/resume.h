/*
 * Resumes a run that an earlier client began: from the newest checkpoint in its
 * checkpoint directory. Every ps is set back to that checkpoint in place, the variables
 * exist again under their names, and the work in the checkpoint's backlog
 * (checkpoint/backlog.h) is done.
 */
#ifndef COXI_COORDINATOR_CHECKPOINTS_RESUME_H
#define COXI_COORDINATOR_CHECKPOINTS_RESUME_H

#include <time.h>

#include "coordinator/coordinator.h"

/*
 * Claims the checkpoint directory; afterwards the run's id and generation are known.
 * COX_EEXIST: the directory holds a run, and the options forbid resuming; otherwise
 * fails as coxi_generation_claim does.
 */
int coxi_resume_claim(struct cox_coordinator *c);

/*
 * When the ps are claimed: sets the ps and this client back to the newest checkpoint,
 * if there is one. COX_ECONFLICT: it was written with another number of ps;
 * COX_ECHECKSUM, COX_EFORMAT, COX_EIO: it cannot be loaded; COX_EPSLOST.
 */
int coxi_resume(struct cox_coordinator *c);
void coxi_resume_free(struct cox_coordinator *c);

/* ---- resume_backlog.c, resume_order.c */

struct coxi_checkpoint;

/*
 * For coxi_resume: holds the closures and writes of the checkpoint's backlog, and does
 * the writes that no closure precedes. `watermark`: the highest of any ps in the
 * checkpoint.
 */
int coxi_resume_backlog(struct cox_coordinator *c,
                        const struct coxi_checkpoint *checkpoint, uint64_t watermark);

/* coxi_resume_end tells the thread to begin nothing more and waits for it until
 * `until`; false: it still runs. coxi_resume_stop waits without limit. */
bool coxi_resume_end(struct cox_coordinator *c, const struct timespec *until);
void coxi_resume_stop(struct cox_coordinator *c);

#endif
