/*
 * Shared by the files of recovery.
 *
 *   recovery.c          the states of the ps, the thread, functions for others
 *   recovery_restore.c  restores a ps that has come back from the last checkpoint
 *   recovery_fill.c     gives ps what a checkpoint has for them
 *   recovery_replay.c   replays what such a ps lacks since that checkpoint
 *   recovery_held.c     holds closures that cannot end before the ps are UP
 *   recovery_set_back.c sets all ps back to a checkpoint from which a client resumes
 *
 * Unless noted otherwise, the functions here are for the recovery's own thread, and for
 * its threads that bring ps back.
 */
#ifndef COXI_COORDINATOR_RECOVERY_RECOVERY_INTERNAL_H
#define COXI_COORDINATOR_RECOVERY_RECOVERY_INTERNAL_H

#include "checkpoint/manifest.h"
#include "common/applied_list.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/recovery/recovery.h"

struct coxi_ending; /* closures/voiding.h */

enum {
    /* length of one wait; then the thread checks whether to go on */
    COXI_RECOVERY_SLICE_MS = 50
};

/* The thread that brings a ps back. */
struct coxi_recovery_return {
    struct coxi_recovery *rec;
    uint32_t ps;
    uint64_t end_ms;
    pthread_t thread;
    bool started;     /* and not joined yet */
    uint64_t n_moves; /* count_moves at the last try */
    bool told;        /* COX_EVENT_PS_NOT_TAKEN was reported at this address */
};

struct coxi_recovery_server {
    bool returns;     /* a thread is bringing the ps back */
    bool renews;      /* it begins a new incarnation in any case, even if it kept all */
    bool is_set_back; /* it is not lost itself: another one is (sets_all_back) */
    /* the ps's new client, or NULL; the tick gives it up */
    struct coxi_psc *returning;
    uint64_t end_ms;                   /* when it must be back (coxi_now_ms) */
    uint64_t back_ms;                  /* when it last came back */
    struct coxi_applied_list restored; /* its applied set at that time */
    uint64_t filled; /* the incarnation that was last given all of a checkpoint */

    /* not under the lock: it is the recovery thread's, and that thread's */
    struct coxi_recovery_return back;
};

/* The checkpoint from which ps are restored. */
struct coxi_recovery_base {
    char *path; /* NULL: none yet, ps start empty */
    struct coxi_manifest_shard *shards;
    struct coxi_hold *hold; /* nobody deletes the checkpoint meanwhile */
};

struct coxi_recovery {
    struct cox_coordinator *c;
    /* the coordinator's; its lock guards the fields marked below */
    struct coxi_ps_set *set;
    pthread_t thread;
    bool runs; /* the thread must be joined */

    /* ---- guarded by set->lock */
    /* old clients of ps, kept because other threads may still use them */
    struct coxi_psc **past;
    size_t n_past;
    struct coxi_recovery_server *servers;
    struct coxi_recovery_base base;
    uint64_t since_ms; /* since when some ps is not UP; 0: all are UP */
    uint64_t n_moves;  /* how often a ps got another address */
    /* the thread has ended, and settled the closures that were held */
    bool ended;

    /* ---- the loop's own */
    size_t n_redone;                 /* closures since all ps were last UP */
    struct coxi_recovery_held *held; /* closures whose voiding has to wait */
};

/* ---- recovery.c */

/* True if the run is over. */
bool coxi_recovery_stopping(struct coxi_recovery *rec);

/* Waits for a change of the ps, but not longer than a slice. */
void coxi_recovery_wait_slice(struct coxi_recovery *rec);

/* Like coxi_call_on_loop. */
int coxi_recovery_on_loop(struct coxi_recovery *rec,
                          int (*run)(struct coxi_recovery *rec, void *arg), void *arg);

/* ---- recovery_held.c: coxi_closure_events (closures/settle.h). Loop */

void coxi_recovery_void_later(struct coxi_closure *closure,
                              const struct coxi_ending *ending);

/* The recovery has ended: ends the closures that were held for it. Asks the ps first
 * what they have applied of them; if `over`, ends them without asking. Loop. */
void coxi_recovery_let_go_held(struct coxi_recovery *rec);

/* ---- recovery_restore.c */

/*
 * LOST -> OWED for all lost ps, also for those that are lost meanwhile; each has
 * ps_recovery_ms from its loss. Returns an error if a thread cannot be started; a ps that
 * cannot be brought back ends the run.
 */
int coxi_recovery_bring_back(struct coxi_recovery *rec);

/* ---- recovery_fill.c */

/* A ps that was just claimed. */
struct coxi_recovery_target {
    uint32_t ps;
    struct coxi_psc *psc;
    int code; /* its own result */
};

/*
 * Restores these ps from the checkpoint, all at the same time, and notes which of them
 * are restored. There must be a checkpoint. Returns the error of the first ps that
 * failed, with its text.
 */
int coxi_recovery_fill(struct coxi_recovery *rec, struct coxi_recovery_target *targets,
                       size_t n);

/* True if ps `p` holds a part of the variable. */
bool coxi_recovery_is_part(const struct coxi_variable *variable, uint32_t p);

/* Creates the variable on that ps as operation `id`. Succeeds if the operation has
 * created it there already. */
int coxi_recovery_create(struct coxi_recovery *rec, struct coxi_psc *psc,
                         const struct coxi_variable *variable,
                         struct coxi_closure_id id);

/* ---- recovery_replay.c */

/* Call when a closure that repeats another one is settled. It need not be a replay: it
 * may run again for its results. Loop. */
void coxi_recovery_replayed(struct coxi_closure *closure);

/* Does again everything that a restored ps lacks. COX_EAGAIN: a ps was lost meanwhile.
 * COX_EPSLOST: no replay has ended for too long (recovery.h). */
int coxi_recovery_replay(struct coxi_recovery *rec);

#endif
