/*
 * The inside of a coordinator: what its files share.
 *
 *   open.c      cox_open, cox_close
 *   event.c     what the program is told;  call.c  calls under way, and what they wait for
 *   alive.c     errors of the run;  cause.c, public.c  texts of errors
 *   ids.h       ids, places among them, steps;  saving.h  what is known of checkpoints
 *   ps_set.c    which ps are up;  ps_claim.c  a ps becomes this client's
 *   replay_log.c  what is done again for a ps that comes back
 *   packing.c   what a user says of a call;  announced.c  variables that can be used
 *   schedule.c  scheduling, join: what users' threads call;  cancel.c, fetch.c  so
 *   operation.c what the client itself writes;  intake.c  where all of these get their ids
 *   closure.c   a closure: making one, its states;  gate.h  whether an older client's come first
 *   closures.h  those that are not settled, and where they are
 *   future.h    what a user holds of a closure;  futures.c  waiting for it
 *   callback.c  callbacks, on a thread of their own
 *   dispatch.c  the loop's part of that: a turn of it; from the queue to workers
 *   attempts.c  what the end of an attempt means for its closure (loop)
 *   settle.c    places of closures in line, and their end (loop)
 *   voiding.c   the end of a closure of which something may be applied (loop)
 *   inputs.c    futures as arguments
 *   kept.c      results that stay on workers (loop)
 *   stragglers.c  second attempts (loop)
 *   losses.c    workers that are gone: what counts, how long closures wait (loop)
 *   watch.c     closures that wait too long, or in silence (loop)
 *   crew.c      what closures make of what happens to a worker;  seat.c  what they keep of
 *               one;  send.c  what they send it (loop)
 *   queue.c     closures in line, by priority
 *   pool.c      which worker has the most room
 *   worker.c    workers: setting up, losing them (loop)
 *   contact.c   their connections;  door.c  where those dial that are not listed (loop)
 *   conn.c      one connection to a worker, as events on the loop
 *   layout.c    what workers are told of ps and variables (loop)
 *   registry.c  which variables, tables and metrics there are;  variable.c  creating and
 *               finding them;  rules.c  their optimizers;
 *   partition.c  which ps has what of them;  content_read.c, content_write.c  what they
 *               hold;  metric.c
 *   load.c, load_send.c  what another checkpoint holds goes into variables of this run
 *   module.c    step modules
 *   resource.c  what each worker makes and keeps
 *   recovery.c, recovery_restore.c, recovery_replay.c  a ps that is lost comes back
 *   opening.c   what cox_open waits for
 *   resume.c    going on where a client before this one ended;  resume_backlog.c,
 *               resume_order.c  what that had not done;  backlog.c  what a checkpoint says for that
 *   save.c      writing checkpoints;  trigger.c  when nobody calls for it
 *
 * Threads: users' threads, one loop thread, one callback thread, one that hands out events, one
 * that writes the checkpoints of triggers. The loop owns closures from the moment they leave the intake
 * until they are settled, and everything about workers. "Loop" means in a turn of it: a
 * user's thread may take one (cox_schedule). What both sides touch is under `lock`.
 * Connections to the ps have threads of their own (net/ps_client).
 */
#ifndef COXI_COORDINATOR_COORDINATOR_H
#define COXI_COORDINATOR_COORDINATOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/buffer.h"
#include "common/loop.h"
#include "coordinator/base/announced.h"
#include "coordinator/base/call.h"
#include "coordinator/base/counts.h"
#include "coordinator/base/ids.h"
#include "coordinator/base/life.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/saving.h"
#include "coordinator/base/site.h"
#include "coxswain/coxswain.h"
#include "net/message.h"
#include "net/ps_round.h"

enum {
    COXI_WINDOW = 1 << 20, /* ids above the watermark that a ps takes */
    COXI_AHEAD_MAX = COXI_WINDOW - (1 << 16), /* closures: theirs lags behind ours */
    COXI_LOSSES_MAX = 16, /* workers that a closure may lose while it runs */
    COXI_TICK_MS = 50,
    COXI_CALL_ARGS_MAX = 1 << 30, /* bytes of packed arguments */
};

struct coxi_closures;
struct coxi_callbacks;
struct coxi_workers;
struct coxi_modules;
struct coxi_resources;
struct coxi_ps_set;         /* base/ps_set.h */
struct coxi_replay_log;     /* base/replay_log.h */
struct coxi_closure_events; /* closures/settle.h */
struct coxi_gate;           /* closures/gate.h */
struct coxi_recovery;       /* recovery.c */
struct coxi_resumed;        /* resume.c */
struct coxi_trigger;        /* checkpoints/trigger.h */

/* What is behind the handle of a variable, table or metric. Lives until close. */
struct coxi_entry {
    struct cox_coordinator *c;
    struct coxi_variable *description; /* without a name where creating it failed */
    bool made;                         /* it can be used; guarded by c->lock */
    bool
        found; /* a client before this one has made it, and the program has not asked for
                   it yet; guarded by c->lock */
    uint64_t created; /* the id of the operation that made it; 0: a client before */
};

struct cox_variable {
    struct coxi_entry entry;
};

struct cox_table {
    struct coxi_entry entry;
};

struct cox_metric {
    struct coxi_entry entry;
};

/*
 * Each room keeps its own state; its header has the struct. What rooms share is in the parts of
 * base/, which lie here themselves.
 */
struct cox_coordinator {
    atomic_int refs; /* the owner, and each future that a user holds */
    struct cox_options options;
    struct coxi_session session;
    struct coxi_events *events; /* base/event.h */
    struct coxi_loop *loop;
    struct coxi_site site;                        /* the cluster, and what reaches it */
    struct coxi_ps_set ps;                        /* the ps, and which of them are up */
    _Atomic(struct coxi_replay_log *) replay_log; /* set while the loop runs; or NULL */
    struct coxi_saving saving;                    /* checkpoints */
    struct coxi_announced announced;              /* variables that can be used */

    /* Guards what is said so in the parts and rooms. Comes before the loop's mailbox. */
    pthread_mutex_t lock;
    struct coxi_ids ids;
    struct coxi_life life;
    struct coxi_run_counts counts;

    struct coxi_workers *workers; /* workers/worker.h */
    struct coxi_modules *modules; /* workers/module.h; lives as long as futures do */
    struct coxi_resources *resources; /* workers/resource.h */
    struct coxi_closures *closures;   /* closures/closures.h; so does this */
    struct coxi_callbacks *callbacks; /* closures/callback.h; and this */
    struct coxi_registry *registry;   /* variables/registry.h */
};

#endif
