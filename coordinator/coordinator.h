/*
 * The inside of a coordinator, shared by its files. Functions marked (loop) run on the
 * loop alone.
 *
 *   open.c      opens and closes a coordinator
 *   opening.c   waits for the cluster in cox_open
 *   options.c   checks the options
 *
 * base/, for all other rooms:
 *
 *   event.c       reports events to the program
 *   history.c     keeps what pages, tools and TensorBoard show
 *   call.c        knows the calls under way, and what each waits for
 *   alive.c       keeps errors that end the run
 *   cause.c       texts of causes of death
 *   public.c      small functions of the public interface
 *   ids.h         ids of closures, their order, steps
 *   saving.h      the state of checkpoints
 *   ps_set.c      knows which ps are up
 *   ps_claim.c    claims a ps for this client
 *   replay_log.c  keeps what a restored ps must repeat;  replay_update.c  the client's
 *               own writes in it
 *   packing.c     checks and packs the arguments of a call
 *   profile.c     adds up where the time of steps went
 *   announced.c   knows which variables can be used
 *
 * closures/:
 *
 *   schedule.c    schedules and joins, on user threads; gives out ids
 *   cancel.c      cancels a closure for its user
 *   fetch.c       fetches kept results for a user
 *   operation.c   changes that the client itself makes on the ps
 *   closure.c     makes closures and changes their states; queues of them, and all that
 *               are not settled
 *   handout.h     the task of a data set that a closure has
 *   gate.h        keeps the order of an older client's work
 *   future.h      the user's handle of a closure
 *   futures.c     waits for futures and reads their results
 *   callback.c    calls callbacks, on a thread of its own
 *   dispatch.c    a turn of the loop: assigns closures to workers, sends them (loop)
 *   attempts.c    handles the end of attempts (loop)
 *   settle.c      places closures in line, and settles them (loop)
 *   voiding.c     asks the ps what they have of a closure before it ends (loop)
 *   tally.c       works out how much of a closure is applied
 *   inputs.c, inputs_export.c  futures as arguments
 *   kept.c        results that stay on workers (loop)
 *   stragglers.c  second attempts (loop)
 *   losses.c      counts lost workers against closures (loop)
 *   watch.c       ends or reports closures that wait too long (loop)
 *   crew.c        passes events of workers on to their seats (loop)
 *   seat.c        the state that closures keep for a worker; how many it has at hand
 *   pool.c        finds the worker with the most room
 *
 * workers/:
 *
 *   worker.c    sets workers up, and declares them lost (loop)
 *   contact.c   their connections (loop)
 *   door.c      takes in workers that dial the client (loop)
 *   conn.c      one connection to a worker, as events on the loop
 *   reach.c     handles workers that cannot reach a ps (loop)
 *   layout.c    tells workers the ps and variables (loop)
 *   module.c    step modules
 *   resource.c  resources, which each worker makes and keeps
 *
 * datasets/ gives the tasks of data sets to closures (dataset.h lists its files).
 *
 * variables/:
 *
 *   registry.c       knows all variables, tables and metrics
 *   variable.c       creates and finds them
 *   rules.c          checks their optimizers
 *   partition.c      places their parts on ps
 *   content_read.c   reads their values
 *   content_write.c  writes their values
 *   metric.c         reads and resets metrics
 *   load.c           loads another checkpoint into variables of this run
 *   load_send.c      sends it to the ps
 *
 * recovery/ brings a lost ps back (recovery_internal.h lists its files).
 *
 * checkpoints/:
 *
 *   save.c            writes checkpoints
 *   trigger.c         takes checkpoints without a call of the program
 *   backlog.c         collects the work that a restarted client must repeat
 *   resume.c          resumes a run that an earlier client began
 *   resume_backlog.c  takes over the backlog
 *   resume_order.c    does its work in the old order
 *
 * monitor/ (monitor.h lists its files) samples the run, and writes its history to disk.
 *
 * Threads: user threads, one loop thread, one callback thread, one that delivers
 * events, one that writes the checkpoints of triggers. The loop owns closures from the
 * moment they leave the intake until they are settled, and everything about workers.
 * "Loop" means: in a turn of the loop, which a user thread may take, too
 * (cox_schedule). `lock` guards the state that both sides use. Connections to the ps
 * have threads of their own (net/ps_client).
 */
#ifndef COXI_COORDINATOR_COORDINATOR_H
#define COXI_COORDINATOR_COORDINATOR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/buffer.h"
#include "common/loop.h"
#include "common/sync.h"
#include "coordinator/base/announced.h"
#include "coordinator/base/call.h"
#include "coordinator/base/counts.h"
#include "coordinator/base/ids.h"
#include "coordinator/base/life.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/saving.h"
#include "coordinator/base/site.h"
#include "coordinator/base/task_stream.h"
#include "coxswain/coxswain.h"
#include "net/message.h"
#include "net/ps_round.h"

enum {
    COXI_WINDOW = 1 << 20, /* ids above the watermark that a ps accepts */
    /* how many ids run ahead of the oldest unsettled closure; less than COXI_WINDOW,
     * because the watermark of a ps is older than ours */
    COXI_AHEAD_MAX = COXI_WINDOW - (1 << 16),
    COXI_LOSSES_MAX = 16, /* workers that may be lost while they run a closure */
    COXI_TICK_MS = 50,
    COXI_CALL_ARGS_MAX = 1 << 30, /* bytes of packed arguments */
};

struct coxi_closures;
struct coxi_workers;
struct coxi_modules;
struct coxi_resources;
struct coxi_ps_set;         /* base/ps_set.h */
struct coxi_replay_log;     /* base/replay_log.h */
struct coxi_closure_events; /* closures/settle.h */
struct coxi_gate;           /* closures/gate.h */
struct coxi_tracing;        /* monitor/trace.h */
struct coxi_recovery;       /* recovery.c */
struct coxi_resumed;        /* resume.c */
struct coxi_trigger;        /* checkpoints/trigger.h */
struct coxi_exposed;        /* monitor/exposed.h */
struct coxi_records;        /* checkpoint/records.h */
struct coxi_monitor;        /* monitor/monitor.h */

/* What a handle of a variable, table or metric points to. Lives until close. */
struct coxi_entry {
    struct cox_coordinator *c;
    struct coxi_variable *description; /* without a name if its creation failed */
    bool made;                         /* it can be used; guarded by c->lock */
    /* an older client has made it, and the program has not asked for it yet; guarded by
     * c->lock */
    bool found;
    /* the id of the operation that made it; 0: an older client made it */
    struct coxi_closure_id created;
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

/* Each room keeps its own state, in a struct in its header. State that rooms share is
 * in the parts of base/, which are members here. */
struct cox_coordinator {
    atomic_int refs; /* one for the owner, and one for each future that a user holds */
    struct cox_options options;
    char *option_texts; /* what the strings of `options` point into */
    struct coxi_session session;
    struct coxi_events *events; /* base/event.h */
    struct coxi_loop *loop;
    struct coxi_site site;                        /* the cluster and its connections */
    struct coxi_ps_set ps;                        /* the ps, and which of them are up */
    _Atomic(struct coxi_replay_log *) replay_log; /* set while the loop runs; or NULL */
    struct coxi_saving saving;                    /* checkpoints */
    struct coxi_announced announced;              /* variables that can be used */
    struct coxi_task_stream task_stream;          /* what slots have run, if watched */

    /* guards fields of the parts and rooms, as noted there; comes before the loop's
     * mailbox */
    struct coxi_mutex lock;
    struct coxi_ids ids COXI_GUARDED_BY(lock);
    struct coxi_life life COXI_GUARDED_BY(lock);
    struct coxi_phase phase; /* loop */
    struct coxi_run_counts counts COXI_GUARDED_BY(lock);
    struct coxi_run_times times; /* base/counts.h */

    struct coxi_workers *workers; /* workers/worker.h */
    struct coxi_modules *modules; /* workers/module.h; lives as long as futures do */
    struct coxi_resources *resources; /* workers/resource.h */
    struct coxi_closures *closures;   /* closures/closure.h; lives as long as futures */
    struct coxi_registry *registry;   /* variables/registry.h */
    struct cox_dataset *datasets;     /* datasets/dataset.h; guarded by lock */
    struct coxi_served *served;       /* datasets/serve.h */
    struct coxi_tracing *tracing;     /* monitor/trace.h */
    struct coxi_exposed *exposed;     /* monitor/exposed.h; NULL: nothing is served */
    struct coxi_records *history;     /* base/history.h; NULL: there is none */
    struct coxi_monitor *monitor;     /* monitor/monitor.h; the same */
};

/* For a function without a parameter for the coordinator: call it with c->lock held. */
#define COXI_REQUIRES_C_LOCK COXI_REQUIRES(((struct cox_coordinator *)0)->lock)
/* For a field of another struct. */
#define COXI_GUARDED_BY_C_LOCK COXI_GUARDED_BY_OF(struct cox_coordinator, lock)

#endif
