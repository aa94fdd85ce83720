/*
 * A ps that is lost comes back: at the same address or another (cox_ps_address), started
 * again by whoever looks after it, with nothing in it. It is restored from the last checkpoint, what it misses is
 * replayed (coordinator/base/replay_log.h), and the others keep what they have.
 *
 *   UP -> LOST        its connection is gone for good, or it has been started again
 *   LOST -> OWED      it is there again, restored, and ours; workers are told
 *   OWED -> UP        everything that it missed has been done again
 *
 * While any ps is not UP, nothing but the current batch of the replay is dispatched or made:
 * no other step, no second attempt, no result that the batch does not need, and no resource
 * that is newer than what has been done again. Otherwise a step would read values that are
 * only partly restored, or overtake a write. Reads and writes of the client's own wait.
 *
 * A ps that is not back, or not restored, ps_recovery_ms after its loss ends the run with
 * COX_EPSLOST; so does a replay in which nothing has ended for that long while no worker runs
 * a step or makes a resource. However a recovery ends (done, given up, closed), every closure
 * that was held for it is settled.
 */
#ifndef COXI_COORDINATOR_RECOVERY_RECOVERY_H
#define COXI_COORDINATOR_RECOVERY_RECOVERY_H

#include "coordinator/base/replay_log.h"
#include "coordinator/coordinator.h"

struct coxi_recovery;
struct coxi_checkpoint;
struct coxi_manifest;
struct coxi_manifest_shard;
struct coxi_ending; /* voiding.h */

/* Starts it where there is a checkpoint directory; else c->ps.recovery stays NULL, and a ps
 * that is lost is lost. When the ps are claimed. */
int coxi_recovery_start(struct cox_coordinator *c, const struct coxi_replay_refs *refs);

/*
 * Nothing is recovered from here on. `end` only asks for that and waits until `until` for the
 * recovery's threads to end: false, one of them waits for a ps, which has to be given up
 * before `stop`, which waits for them. Then, when nobody calls anything any more, frees it.
 */
bool coxi_recovery_end(struct cox_coordinator *c, const struct timespec *until);
void coxi_recovery_stop(struct cox_coordinator *c);
void coxi_recovery_free(struct cox_coordinator *c);

/* A ps client has given its ps up. False: this ends the run. Any thread. */
bool coxi_recovery_lost(struct cox_coordinator *c, const struct coxi_psc *psc,
                        const char *text);

/* ---- the loop's */

/* Gives up the ps that are being brought back when their time is over. Every COXI_TICK_MS. */
void coxi_recovery_tick(struct cox_coordinator *c);

/* ---- checkpoints */

struct coxi_recovery_mark {
    uint64_t log;
    uint64_t n_losses;
};

/* Before the ps are asked, which waits until all are UP: what the log has before the mark
 * (coxi_replay_log_mark) will be in the checkpoint. */
int coxi_recovery_mark(struct cox_coordinator *c, struct coxi_recovery_mark *ret);

/*
 * Sets every ps back to that checkpoint, in place; a ps that is lost from now on is restored from
 * it. For a client that opens, and goes on from it. Takes the shards of its manifest. COX_EPSLOST,
 * COX_ENOMEM, and what keeps a ps from being restored.
 */
int coxi_recovery_set_back(struct cox_coordinator *c,
                           struct coxi_checkpoint *checkpoint);

/* The checkpoint is durable, in directory `path`: from now on it is restored from, unless
 * a ps has been lost since the mark. Takes the applied sets of the shards then, one for
 * each ps. COX_ENOMEM. */
int coxi_recovery_base(struct cox_coordinator *c, const char *path,
                       struct coxi_manifest_shard *shards,
                       const struct coxi_recovery_mark *mark);

/* The log is half full, or keeps half as many resources as there may be from being dropped: a
 * checkpoint would be good. With c->lock. */
bool coxi_recovery_is_due(const struct cox_coordinator *c);

#endif
