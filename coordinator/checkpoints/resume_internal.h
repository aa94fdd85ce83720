/*
 * The work that an older client has left, shared by the files that do it again:
 *
 *   resume_backlog.c  takes over the checkpoint's backlog
 *   resume_order.c    runs the calls and writes in their order
 *   resume_rounds.c   the rounds among the calls
 *
 * Calls of the backlog become closures under their old ids, WAITING from the start, so
 * no ps is told a watermark beyond them. At first their functions are only names. They
 * start when the program schedules or joins for the first time, because by then it has
 * loaded its modules and made its resources.
 *
 * An error that cancels closures of the program does not cancel these: cox_progress has
 * told the program that they count, so the program would not schedule them again.
 * Attempts of the older client may have applied a part of such a closure, so the ps are
 * asked before it ends. If its id is at or below the watermark of a ps that cannot
 * tell, the older client had settled it as done; if it fails now, the error is
 * COX_EREPLAY.
 *
 * A write of the older client keeps its place among the calls and is a barrier there:
 * earlier closures are settled before it is written; later ones, and everything that
 * this program schedules, writes or reads, wait until it is written. A write that no
 * closure precedes happens while the client opens. A thread writes the others, each
 * when the loop finds that its turn has come.
 *
 * A metric that the program resets before it has scheduled or joined is reset twice: at
 * once, and after all closures of the backlog but before closures of the program with a
 * higher id. Otherwise the closures that run again would count in it. The second reset
 * is a write like those of the older client, and comes last.
 *
 * In the log a write is HELD until its turn: a checkpoint taken meanwhile lists it in
 * its own backlog, in the same place, and no replay treats it as a write that the ps
 * had applied.
 *
 * Threads: the thread that opens; the loop, which owns the closures and says whose turn
 * it is; the thread that writes; user threads in the functions of the gate.
 */
#ifndef COXI_COORDINATOR_CHECKPOINTS_RESUME_INTERNAL_H
#define COXI_COORDINATOR_CHECKPOINTS_RESUME_INTERNAL_H

#include <stdatomic.h>

#include "checkpoint/backlog.h"
#include "coordinator/checkpoints/resume.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/operation.h"
#include "coordinator/workers/module.h"

/* A function that the backlog calls, until a loaded module provides it. */
struct coxi_resumed_name {
    struct cox_function function; /* the function of its closures until then */
    struct cox_module module;     /* only its name is set */
    bool needed;                  /* a call that precedes a write uses it */
    struct cox_function *loaded;  /* guarded by c->lock */
};

/* A metric that is reset after the backlog. */
struct coxi_resumed_reset {
    struct coxi_resumed_reset *next;
    const struct coxi_variable *variable;
    struct coxi_operation *operation; /* NULL: the reset has begun */
    struct coxi_closure_id id;        /* id of the operation */
};

/* One place of the backlog: a closure, an operation, or (when that has run) nothing. */
struct coxi_resumed_held {
    struct coxi_closure *closure;
    struct coxi_operation *operation;
};

struct coxi_resumed {
    struct cox_coordinator *c;
    struct coxi_backlog_file *file;
    struct coxi_resumed_name *names;
    size_t n_names;
    uint64_t watermark; /* the highest watermark with which a ps was restored */
    pthread_t thread;   /* does the writes, if it runs */
    bool runs;

    /* ---- owned by the loop, once the client is open */
    struct coxi_resumed_held *held; /* by place in the backlog */
    size_t barrier;                 /* the place of the next write; n: none is left */
    bool has_turn;                  /* the thread is doing that write */
    struct coxi_mail mail;
    struct coxi_mail written;

    /* ---- guarded by c->lock */
    bool posted;
    bool over;                         /* all functions are loaded */
    bool begun;                        /* the program has scheduled or joined */
    struct coxi_resumed_reset *resets; /* by rising id */
    size_t n_resetting;                /* calls that are about to list a reset */
    size_t n_writes;                   /* writes that are not done */
    /* of the write whose turn it is; NULL once the write has begun */
    struct coxi_operation *operation;
    size_t place; /* the place of that write */
    bool end;
    bool ended;

    /* id of the first of `resets`, 0: there is none; written with c->lock */
    atomic_uint_least64_t next_reset;
};

static inline bool coxi_backlog_is_update(const struct coxi_backlog *backlog, size_t i)
{
    return i < backlog->n && backlog->heads[i].function == COXI_BACKLOG_UPDATE;
}

static inline bool coxi_backlog_is_round(const struct coxi_backlog *backlog, size_t i)
{
    return i < backlog->n && backlog->heads[i].function == COXI_BACKLOG_ROUND;
}

/* True if head i continues the write of head i - 1. */
static inline bool coxi_backlog_is_more(const struct coxi_backlog *backlog, size_t i)
{
    return i > 0 && coxi_backlog_is_update(backlog, i) &&
           coxi_backlog_is_update(backlog, i - 1) &&
           backlog->heads[i].closure == backlog->heads[i - 1].closure;
}

/* The place of the first write from `i` on; n: there is none. */
static inline size_t coxi_backlog_next_write(const struct coxi_backlog *backlog,
                                             size_t i)
{
    while (i < backlog->n &&
           (!coxi_backlog_is_update(backlog, i) || coxi_backlog_is_more(backlog, i))) {
        i++;
    }
    return i;
}

/* The value of c->closures->gate until the backlog is done
 * (coordinator/closures/gate.h). */
extern const struct coxi_gate coxi_resume_gate;

/*
 * Does the write that begins at head i, and ends the operation. If a ps refuses it, the
 * program's next call to schedule or join reports the error. Returns a code other than
 * 0 only if the run is over. Not on the loop.
 */
int coxi_resume_redo(struct cox_coordinator *c, const struct coxi_resumed *resumed,
                     size_t i, struct coxi_operation *operation);

/* The same for a reset of metric `v`. Takes `operation`. */
int coxi_resume_redo_reset(struct cox_coordinator *c, const struct coxi_variable *v,
                           struct coxi_operation *operation);

/* On the loop: holds the round that ends at head i; its closures are held already.
 * COX_ENOMEM, COX_EFORMAT. */
int coxi_resume_hold_round(struct coxi_resumed *resumed, size_t i);

/* A held closure of which all is applied was in a round, whose id is `distance` above its
 * own: if it runs again for its results, its commits must not count. COX_ENOMEM. */
int coxi_resume_join_past(struct coxi_closure *closure, uint64_t distance);

/* Starts the thread that writes, if a write follows a call or a reset may be added. */
int coxi_resume_start(struct coxi_resumed *resumed);

#endif
