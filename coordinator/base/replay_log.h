/*
 * The replay log: everything that must be done again if a ps has lost what it had since
 * the checkpoint from which it would be restored. These are closures that are done,
 * with the ps that they touched; what the client itself created, changed and loaded;
 * and closures that must never apply (failed, cancelled).
 *
 * Bounded in bytes and in the span of its ids. When it is full, nothing more is
 * scheduled until a checkpoint lets it forget entries.
 *
 * A client without recovery has no log: the functions that closures and operations call
 * take NULL for it, and do nothing then.
 *
 * Any thread. An entry costs an append (and, with more than 64 ps, an allocation); only
 * the data that operations wrote are copied.
 */
#ifndef COXI_COORDINATOR_BASE_REPLAY_LOG_H
#define COXI_COORDINATOR_BASE_REPLAY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "coordinator/base/ids.h"
#include "coordinator/base/replay_update.h"

struct coxi_closure;
struct coxi_loading;
struct coxi_replay_log;

enum coxi_replay_kind {
    COXI_REPLAY_CALL,
    COXI_REPLAY_ROUND, /* the end of a round */
    COXI_REPLAY_CREATE,
    COXI_REPLAY_UPDATE,
    COXI_REPLAY_LOAD,
    COXI_REPLAY_BARRED,
};

/*
 * The progress of the client's own operation, or of the end of a round. Its effect counts as in the ps only once
 * each ps that it touches has acknowledged it: until then a checkpoint may contain it
 * on some ps and not on others.
 *
 *   HELD -> OPEN   it begins
 *   OPEN -> DONE   every ps has it
 *   OPEN -> HELD   it has failed on a ps, and the ps are asked which of them have it
 *   HELD -> DONE   they have answered: some have it
 */
enum coxi_replay_state {
    COXI_REPLAY_DONE, /* also every call */
    COXI_REPLAY_OPEN,
    COXI_REPLAY_HELD, /* a replay gives it to no ps */
};

struct coxi_replay_entry {
    struct coxi_closure_id id;
    uint64_t position; /* its place in a replay, before calls with that id; 0: its id */
    enum coxi_replay_kind kind;
    enum coxi_replay_state state;
    uint32_t n_words; /* words of the set of ps that a call or round touched */
    /* of a call in a round: how far the id of the round is above its own; or 0 */
    uint32_t to_round;
    union {
        struct coxi_closure
            *call; /* a reference; of a round: the closure that ends it */
        const struct coxi_variable *created; /* lives until close */
        struct coxi_replay_update *update;   /* owned */
        struct coxi_loading *loading;        /* a reference */
    };
    uint64_t bytes; /* bytes for which it counts */
    union {
        uint64_t word;   /* the set, if one word is enough */
        uint64_t *words; /* owned; bit p % 64 of word p / 64 */
    } touched;
};

static inline bool coxi_replay_touched(const struct coxi_replay_entry *entry,
                                       uint32_t ps)
{
    const uint64_t *words =
        entry->n_words > 1 ? entry->touched.words : &entry->touched.word;
    return (words[ps / 64] >> (ps % 64) & 1) != 0;
}

/* The id by which ps know that they have the entry: the closures of a round are applied
 * by its end. */
static inline struct coxi_closure_id
coxi_replay_applied_as(const struct coxi_replay_entry *entry)
{
    return coxi_closure_id(entry->id.n + entry->to_round);
}

/*
 * The functions by which the log handles closures and loadings; it knows nothing else
 * of them. call_bytes and loading_bytes return the bytes that the log counts for one,
 * and are called with the log's lock; the others without. Any thread.
 */
struct coxi_replay_refs {
    uint64_t (*call_bytes)(const struct coxi_closure *call);
    /* releases the log's reference */
    void (*call_forgotten)(struct coxi_closure *call);
    uint64_t (*loading_bytes)(const struct coxi_loading *loading);
    void (*loading_ref)(struct coxi_loading *loading);
    void (*loading_unref)(struct coxi_loading *loading);
};

/* `bytes_max`: bytes of arguments, results and data. Copies `refs`. */
int coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                        const struct coxi_replay_refs *refs,
                        struct coxi_replay_log **ret);
void coxi_replay_log_free(struct coxi_replay_log *log); /* takes NULL */

/*
 * Adds a call that is done and has touched the ps in `touched`; `entry` has its id, kind
 * and to_round. Takes a reference to it; COX_ENOMEM: does not. The end of a round is OPEN,
 * and comes before the calls of the round: so no mark passes those before the end is
 * done.
 */
int coxi_replay_log_call(struct coxi_replay_log *log,
                         const struct coxi_replay_entry *entry, const uint32_t *touched,
                         size_t n_touched);

int coxi_replay_log_barred(struct coxi_replay_log *log, struct coxi_closure_id id);

/* Adds an operation: its id, kind, state and content. Takes its update over; of a
 * loading, it takes a further reference. COX_ENOMEM: takes nothing. */
int coxi_replay_log_operation(struct coxi_replay_log *log,
                              const struct coxi_replay_entry *operation);

/* Sets the state of the operation with that id, if it is in the log. An update may have
 * several entries: one for each stretch of its rows. */
void coxi_replay_log_set(struct coxi_replay_log *log, struct coxi_closure_id id,
                         enum coxi_replay_state state);

/* Sets the entry of update `id` whose rows begin at `begin` to HELD. Other entries of
 * the update stay as they are: a replay still gives a ps the rows in those. */
void coxi_replay_log_hold(struct coxi_replay_log *log, struct coxi_closure_id id,
                          uint64_t begin);

/*
 * Marks as done the entry of update `id` whose rows begin at `begin`, and reduces it to
 * the rows in `ranges`. If no entry of the update has rows any more, the update must
 * never apply. COX_ENOMEM: nothing was changed.
 */
int coxi_replay_log_narrow(struct coxi_replay_log *log, struct coxi_closure_id id,
                           uint64_t begin, const struct coxi_range *ranges, size_t n);

/*
 * How many entries came before now and before the oldest operation that is not done. A
 * checkpoint whose ps are asked from now on contains all of these. It may contain later
 * entries on some ps and not on others.
 */
uint64_t coxi_replay_log_mark(struct coxi_replay_log *log);

/* A durable checkpoint has everything that came before the mark. */
void coxi_replay_log_forget(struct coxi_replay_log *log, uint64_t mark);

/*
 * _is_due: the log would be half full if `next_id` were the next id, not counting
 * operations that are not done, because no checkpoint lets it forget these. _is_full:
 * it would be full, not counting held operations. These do not count, because a thread
 * that waits for room may be the one that lets a held operation begin: a program that
 * continues a run creates its variables before it loads the modules that an older
 * client's closures need.
 */
bool coxi_replay_log_is_due(struct coxi_replay_log *log, uint64_t next_id);
bool coxi_replay_log_is_full(struct coxi_replay_log *log, uint64_t next_id);

/* The operation with that id has not been done after all: it must never apply. Nor must
 * the calls of the round that it ends. */
void coxi_replay_log_retract(struct coxi_replay_log *log, struct coxi_closure_id id);

/* The lowest id of a call in the log; UINT64_MAX: there is none. */
uint64_t coxi_replay_log_oldest_call(const struct coxi_replay_log *log);

/* Calls `visit` for each entry since the mark, in any order, like
 * coxi_replay_log_each. */
int coxi_replay_log_each_since(struct coxi_replay_log *log, uint64_t mark,
                               int (*visit)(void *arg,
                                            const struct coxi_replay_entry *entry),
                               void *arg);

/* Calls `visit` for each entry by rising position, operations before calls, until it
 * returns something other than 0; returns that. `visit` must not call the log. */
int coxi_replay_log_each(struct coxi_replay_log *log,
                         int (*visit)(void *arg, const struct coxi_replay_entry *entry),
                         void *arg);

#endif
