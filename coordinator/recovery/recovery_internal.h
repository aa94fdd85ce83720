/*
 * What the files of recovery share.
 *
 *   recovery.c          the state of each ps, the thread, what others are told
 *   recovery_restore.c  a ps comes back, with what the last checkpoint has of it
 *   recovery_replay.c   what it misses since is done again
 *   recovery_held.c     closures whose end waits for that
 *   recovery_set_back.c  all ps are set back to a checkpoint that a client goes on from
 *
 * Unless it says otherwise, what is declared here is for the recovery's own thread, and those
 * that it has bring ps back.
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
    COXI_RECOVERY_SLICE_MS = 50
}; /* of waiting, between two looks at whether to go on */

struct coxi_recovery_server {
    bool returns;                      /* a thread brings it back, with this client */
    struct coxi_psc *returning;        /* of it, or NULL; the tick gives it up */
    uint64_t end_ms;                   /* when it has to be back (coxi_now_ms) */
    uint64_t back_ms;                  /* when it was, the last time */
    struct coxi_applied_list restored; /* what it had when it was */
    uint64_t filled; /* the incarnation that was last given all of a checkpoint */
};

/* The checkpoint to start from. */
struct coxi_recovery_base {
    char *path; /* NULL: none yet: from nothing */
    struct coxi_manifest_shard *shards;
    int lock; /* a descriptor: until it is closed nobody deletes it */
};

struct coxi_recovery {
    struct cox_coordinator *c;
    struct coxi_ps_set
        *set; /* the coordinator's: its lock guards what is said so below */
    pthread_t thread;
    bool runs; /* the thread is to be joined */

    /* ---- guarded by set->lock */
    /* Clients of ps that are gone: others may still hold them. */
    struct coxi_psc **past;
    size_t n_past;
    struct coxi_recovery_server *servers;
    struct coxi_recovery_base base;
    uint64_t since_ms; /* some ps is not UP; 0: all are */
    uint64_t n_moves;  /* how often a ps got another address */
    bool ended;        /* the thread has, and settled what was held */

    /* ---- the loop's own */
    size_t n_redone;                 /* closures, since all ps were UP the last time */
    struct coxi_recovery_held *held; /* closures whose voiding has to wait */
    bool over;                       /* nothing is recovered any more */
};

/* ---- recovery.c */

/* True where the run is over. */
bool coxi_recovery_stopping(struct coxi_recovery *rec);

/* As coxi_call_on_loop. */
int coxi_recovery_on_loop(struct coxi_recovery *rec,
                          int (*run)(struct coxi_recovery *rec, void *arg), void *arg);

/* ---- recovery_held.c: coxi_closure_events (closures/settle.h). Loop */

void coxi_recovery_void_later(struct coxi_closure *closure,
                              const struct coxi_ending *ending);

/* Ends the closures that were held for a recovery that has ended: as the ps say, or (over)
 * without asking them. Loop. */
void coxi_recovery_let_go_held(struct coxi_recovery *rec);

/* ---- recovery_restore.c */

/* LOST -> OWED for all that are lost, and those that are meanwhile; each has ps_recovery_ms
 * from its loss. What one of them met has ended the run then; COX_ENOMEM. */
int coxi_recovery_bring_back(struct coxi_recovery *rec);

/* A ps that has just been claimed. */
struct coxi_recovery_target {
    uint32_t ps;
    struct coxi_psc *psc;
    int code; /* how it went, each for itself */
};

/* Gives them what the checkpoint has of them, all at once, and notes who has it. There is one.
 * What the first to fail met, with its text. */
int coxi_recovery_fill(struct coxi_recovery *rec, struct coxi_recovery_target *targets,
                       size_t n);

/* True where ps `p` holds a part of it. */
bool coxi_recovery_is_part(const struct coxi_variable *variable, uint32_t p);

/* Creates it on that ps by the operation `id`, which may have done so before. */
int coxi_recovery_create(struct coxi_recovery *rec, struct coxi_psc *psc,
                         const struct coxi_variable *variable, uint64_t id);

/* ---- recovery_replay.c */

/* A closure that does another again is settled: it may be a replay. Loop. */
void coxi_recovery_replayed(struct coxi_closure *closure);

/* Does all again that any ps is owed. COX_EAGAIN: one was lost meanwhile. COX_EPSLOST: it
 * does not come on. */
int coxi_recovery_replay(struct coxi_recovery *rec);

#endif
