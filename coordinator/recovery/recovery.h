/*
 * Brings back a ps that was lost. The launcher or the user's supervisor starts it
 * again, empty, at the same address or another (cox_ps_address). It is restored from
 * the last checkpoint, and everything since then is replayed
 * (coordinator/base/replay_log.h). The other ps keep what they have; but if there are
 * deterministic rounds, they count as lost, too (ps_set.h, sets_all_back).
 *
 *   UP -> LOST        its connection has ended for good, or it was started again
 *   LOST -> OWED      it is back, claimed, and restored; workers are told
 *   OWED -> UP        everything that it lacked since its checkpoint was done again
 *
 * While any ps is not UP, nothing but the current batch of the replay is dispatched or
 * made: no other step, no second attempt, no result that the batch does not need, and
 * no resource that is newer than the batch. Otherwise a step would read values that are
 * only partly restored, or overtake a write. The client's own reads and writes wait.
 *
 * If a ps is not back and restored ps_recovery_ms after its loss, the run ends with
 * COX_EPSLOST; likewise if no replay has ended for that long while no worker runs a
 * step or makes a resource. However a recovery ends (done, given up, closed), every
 * closure that was held for it is settled.
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

/* Starts recovery if there is a checkpoint directory; otherwise c->ps.recovery stays
 * NULL, and a lost ps stays lost. Call when the ps are claimed. */
int coxi_recovery_start(struct cox_coordinator *c, const struct coxi_replay_refs *refs);

/*
 * End recovery: no ps is brought back any more. _end asks the recovery's threads to
 * end, and waits for them until `until`; false: one of them still waits for a ps. Give
 * the ps up before _stop, because _stop waits for the threads without a limit. Call
 * _free when no thread calls any function of the coordinator any more.
 */
bool coxi_recovery_end(struct cox_coordinator *c, const struct timespec *until);
void coxi_recovery_stop(struct cox_coordinator *c);
void coxi_recovery_free(struct cox_coordinator *c);

/* Call when a client of a ps gives that ps up. False: nothing can bring it back, so the
 * loss ends the run. Any thread. */
bool coxi_recovery_lost(struct cox_coordinator *c, const struct coxi_psc *psc,
                        const char *text);

/*
 * Ps `ps` is at `address` from now on: a lost one is looked for there. Does not need a
 * recovery. *ret_before: where it was. COX_EADDRESS, COX_ENOMEM. Any thread.
 */
int coxi_recovery_move(struct cox_coordinator *c, uint32_t ps, const char *address,
                       char *ret_before, size_t before_max);

/* ---- for the loop */

/* Gives up ps that have not come back in time. Call every COXI_TICK_MS. */
void coxi_recovery_tick(struct cox_coordinator *c);

/* ---- checkpoints */

struct coxi_recovery_mark {
    uint64_t log;
    uint64_t n_losses;
};

/*
 * Call before the ps are asked for a checkpoint; waits until all ps are UP. The
 * checkpoint will contain everything that the log has before the mark
 * (coxi_replay_log_mark).
 */
int coxi_recovery_mark(struct cox_coordinator *c, struct coxi_recovery_mark *ret);

/*
 * Sets every ps back to that checkpoint, in place; a ps that is lost from now on is
 * restored from it. For a client that opens and continues from it. Takes the shards of
 * its manifest. COX_EPSLOST, COX_ENOMEM, and errors that keep a ps from being restored.
 */
int coxi_recovery_set_back(struct cox_coordinator *c,
                           struct coxi_checkpoint *checkpoint);

/*
 * The checkpoint in directory `path` is durable: from now on ps are restored from it,
 * unless a ps was lost since the mark. In that case takes the applied sets of the
 * shards, one for each ps. COX_ENOMEM.
 */
int coxi_recovery_base(struct cox_coordinator *c, const char *path,
                       struct coxi_manifest_shard *shards,
                       const struct coxi_recovery_mark *mark);

/* True if a checkpoint would help: the log is half full, or it keeps half of the
 * possible number of resources from being dropped. With c->lock. */
bool coxi_recovery_is_due(const struct cox_coordinator *c) COXI_REQUIRES(c->lock);

#endif
