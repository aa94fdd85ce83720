/*
 * What the client before has left: what the files share that see to it.
 *
 *   resume_backlog.c  takes it up
 *   resume_order.c    lets it go on, in its order
 *
 * Calls of the backlog are closures under their old ids, WAITING from the start: so no ps is
 * told a watermark beyond them. Their functions are names at first. What the program schedules
 * or joins first lets them go on, for by then it has loaded its modules and made its resources.
 *
 * An error that cancels what the program has scheduled does not cancel them: the program has been
 * told, by cox_progress, that they count, so nobody would schedule them again. Attempts of the
 * older client may have applied a part of one, so the ps are asked before it ends. Of one below
 * the watermark of a ps that cannot tell, the older client had settled it as done: if it fails
 * now, that is COX_EREPLAY.
 *
 * What that client was writing has its place among them, and is a barrier there: closures
 * before it are settled before it is written, those behind it wait until it is, and so does
 * everything that this program schedules, writes or reads. Where no closure comes before it, it
 * is written while the client opens; else by a thread, when the loop finds that it is its turn.
 *
 * A metric that the program resets before it has scheduled or joined is reset twice: at once, and
 * behind all closures of the backlog, before those of the program that get a higher id. Otherwise
 * what runs again would count in it. The second reset is a write like those of the client before,
 * and the last of them.
 *
 * In the log a write is HELD until its turn: a checkpoint that is taken meanwhile has it in its
 * own backlog, in the same place, and no replay takes it for something that the ps had.
 *
 * Threads: who opens; the loop, which owns closures and says whose turn it is; one that writes;
 * users' in what the gate does for them.
 */
#ifndef COXI_COORDINATOR_CHECKPOINTS_RESUME_INTERNAL_H
#define COXI_COORDINATOR_CHECKPOINTS_RESUME_INTERNAL_H

#include <stdatomic.h>

#include "checkpoint/backlog.h"
#include "coordinator/checkpoints/resume.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/operation.h"
#include "coordinator/workers/module.h"

/* A function of the backlog, in place of which there will be one of a module. */
struct coxi_resumed_name {
    struct cox_function function; /* what its closures have until then */
    struct cox_module module;     /* a name */
    bool needed;                  /* by a call that a write comes after */
    struct cox_function *loaded;  /* guarded by c->lock */
};

/* A metric that is reset behind the backlog. */
struct coxi_resumed_reset {
    struct coxi_resumed_reset *next;
    const struct coxi_variable *variable;
    struct coxi_operation *operation; /* NULL: it has begun */
    uint64_t id;                      /* of that */
};

/* What waits in a place of the backlog: a closure, an operation, or nothing (any more). */
struct coxi_resumed_held {
    struct coxi_closure *closure;
    struct coxi_operation *operation;
};

struct coxi_resumed {
    struct cox_coordinator *c;
    struct coxi_backlog_file *file;
    struct coxi_resumed_name *names;
    size_t n_names;
    uint64_t watermark; /* the highest that a ps has been restored with */
    pthread_t thread;   /* that writes, if it runs */
    bool runs;

    /* ---- the loop's, once the client is open */
    struct coxi_resumed_held *held; /* by place in the backlog */
    size_t barrier;                 /* the place of the next write; n: there is none */
    bool has_turn;                  /* the thread is writing that */
    struct coxi_mail mail;
    struct coxi_mail written;

    /* ---- guarded by c->lock */
    bool posted;
    bool over;                         /* all functions are loaded */
    bool begun;                        /* the program has scheduled or joined */
    struct coxi_resumed_reset *resets; /* by rising id */
    size_t n_resetting;                /* calls that are about to list a reset */
    size_t n_writes;                   /* that are not done */
    struct coxi_operation
        *operation; /* of the write whose turn it is, until it begins */
    size_t place;   /* of that */
    bool end;
    bool ended;

    atomic_uint_least64_t
        next_reset; /* written with c->lock: id of the first of `resets`;
                                         0: there is none */
};

static inline bool coxi_backlog_is_update(const struct coxi_backlog *backlog, size_t i)
{
    return i < backlog->n && backlog->heads[i].function == COXI_BACKLOG_UPDATE;
}

/* True where head i goes on with the write of the one before it. */
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

/* What c->closures->gate is while the backlog is gone through (coordinator/closures/gate.h). */
extern const struct coxi_gate coxi_resume_gate;

/* Writes what head i begins, and ends the operation. What a ps refuses is reported by what the
 * program schedules or joins next. Other than 0: the run is over. Not on the loop. */
int coxi_resume_redo(struct cox_coordinator *c, const struct coxi_resumed *resumed,
                     size_t i, struct coxi_operation *operation);

/* The same for a reset whose operation, of which it takes care, is `operation`. */
int coxi_resume_redo_reset(struct cox_coordinator *c, const struct coxi_variable *v,
                           struct coxi_operation *operation);

/* Starts the thread that does so, if anything comes after a call, or may do so. */
int coxi_resume_start(struct coxi_resumed *resumed);

#endif
