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
struct coxi_manifest;
struct coxi_manifest_shard;
struct coxi_ending; /* voiding.h */

/* Starts it where there is a checkpoint directory; else c->recovery stays NULL, and a ps
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

/* How often a ps has been lost: what was read while that changed may be of one that had not
 * all of its own again. Any thread. */
uint64_t coxi_recovery_losses(const struct cox_coordinator *c);

/* Where ps `ps` is, or is to be when it comes back; for free(). NULL: no memory. Any thread. */
char *coxi_recovery_address(struct cox_coordinator *c, uint32_t ps);

/*
 * The incarnations of the ps (n_ps of them) at a moment when all were UP, for what the client
 * itself writes: one that comes back later refuses it until it has been given what came before.
 * Waits for that as coxi_recovery_wait does. Any thread but the loop.
 */
int coxi_recovery_moment(struct cox_coordinator *c, uint64_t *ret_incarnations);
void coxi_recovery_incarnations(struct cox_coordinator *c,
                                uint64_t *ret); /* as of now */

/* Waits until every ps is UP. What ended the coordinator. Any thread but the loop. */
int coxi_recovery_wait(struct cox_coordinator *c);

/* True where COX_EPSLOST, of a closure or a request, means: try again. */
bool coxi_recovery_is_on(const struct cox_coordinator *c);

/* True where `code`, of something that the client itself has asked of the ps, means that
 * one was lost in the middle and has come back: once more, then. Any thread but the loop;
 * waits. */
bool coxi_recovery_again(struct cox_coordinator *c, int code);

/* Some ps is not UP: nothing but the current batch of the replay may be dispatched. Any
 * thread. */
bool coxi_recovery_is_under_way(const struct cox_coordinator *c);

/* ---- the loop's */

/* Gives up the ps that are being brought back when their time is over. Every COXI_TICK_MS. */
void coxi_recovery_tick(struct cox_coordinator *c);

/* Every ps is there again, and a batch of the replay may be dispatched. */
bool coxi_recovery_is_replaying(const struct cox_coordinator *c);

/* All that the client did before it gave out this id has been done again; UINT64_MAX where
 * no recovery is under way. */
uint64_t coxi_recovery_reached(const struct cox_coordinator *c);

/* The closure of that id: one that is not settled, or is being replayed. */
struct cox_future *coxi_recovery_find(struct cox_coordinator *c, uint64_t id);

/* How often a ps has come back. */
uint64_t coxi_recovery_epoch(const struct cox_coordinator *c);

/* True where one of the ps has come back since `f` was dispatched: what it said of them
 * counts for nothing. */
bool coxi_recovery_is_stale(const struct cox_future *f, const uint32_t *touched,
                            size_t n_touched);

/* A closure is settled; one that does another again is, which may be a replay. */
void coxi_recovery_settled(struct cox_future *f, const uint32_t *touched,
                           size_t n_touched);
void coxi_recovery_replayed(struct cox_future *f);

/* The closure's voiding met a ps that is lost, or was: it is started anew when all are UP. */
void coxi_recovery_void_later(struct cox_future *f, const struct coxi_ending *ending);

/* The highest id that may be told ps `ps` as its watermark, given that of the others. */
uint64_t coxi_recovery_watermark(const struct cox_coordinator *c, uint32_t ps,
                                 uint64_t watermark);

/* ---- checkpoints */

struct coxi_recovery_mark {
    uint64_t log;
    uint64_t n_losses;
};

/* Before the ps are asked, which waits until all are UP: what the log has before the mark
 * (coxi_replay_log_mark) will be in the checkpoint. */
int coxi_recovery_mark(struct cox_coordinator *c, struct coxi_recovery_mark *ret);

/*
 * All ps have answered: says in the manifest where a client that is started again is to go on,
 * and writes what it has to see to before that to a file in directory `dir`. Any thread but
 * the loop. COX_EIO, COX_ENOMEM.
 */
int coxi_recovery_backlog(struct cox_coordinator *c, const char *dir,
                          const struct coxi_recovery_mark *mark,
                          struct coxi_manifest *manifest);

/* The checkpoint is durable, in directory `path`: from now on it is restored from, unless
 * a ps has been lost since the mark. Takes the applied sets of the shards then, one for
 * each ps. COX_ENOMEM. */
int coxi_recovery_base(struct cox_coordinator *c, const char *path,
                       struct coxi_manifest_shard *shards,
                       const struct coxi_recovery_mark *mark);

/* The lowest id of a closure that is settled and may be replayed; UINT64_MAX: none may. Any
 * thread. */
uint64_t coxi_recovery_oldest(const struct cox_coordinator *c);

/* The log is half full, or keeps half as many resources as there may be from being dropped: a
 * checkpoint would be good. With c->lock. */
bool coxi_recovery_is_due(const struct cox_coordinator *c);

/* The log is full: nothing more is taken in until it has a checkpoint. With c->lock. */
bool coxi_recovery_is_full(const struct cox_coordinator *c);

/*
 * ---- what the client itself does. An operation is logged when it gets its id, before any ps is
 * asked, and stays undone there (coordinator/base/replay_log.h) until everybody has it. So the mark of a
 * checkpoint passes no operation that some ps may lack at its moment, and the backlog has it.
 * Any thread; without recovery nothing happens.
 */

/* Takes the update; a reference to a loading. With c->lock. COX_ENOMEM: takes nothing. */
int coxi_recovery_operation(struct cox_coordinator *c,
                            const struct coxi_replay_entry *operation);

void coxi_recovery_operation_set(struct cox_coordinator *c, uint64_t id,
                                 enum coxi_replay_state state);

/* Of an update: those of its rows that begin at `begin` have failed somewhere. */
void coxi_recovery_operation_hold(struct cox_coordinator *c, uint64_t id,
                                  uint64_t begin);

/* It has come to nothing, and must never apply. */
void coxi_recovery_retracted(struct cox_coordinator *c, uint64_t id);

/* What the ps have of a HELD update, when they were asked. */
struct coxi_recovery_written {
    uint64_t id;
    uint64_t begin;                  /* its first row */
    const struct coxi_range *ranges; /* the rows that they have */
    size_t n;
    uint64_t n_losses; /* that were known before they were asked */
};

/* It is done with that. False: a ps has been lost since they were asked, ask again. */
bool coxi_recovery_written(struct cox_coordinator *c,
                           const struct coxi_recovery_written *written);

#endif
