/*
 * The replay log: what has to be done again where a ps has lost what it had. Since the
 * checkpoint that a restore would start from: closures that are done, with the ps that they
 * touched; what the client itself created, changed and loaded; and closures that must never apply
 * (failed, cancelled).
 *
 * Bounded in bytes and in the ids it spans: when it is full, nothing more is scheduled until
 * a checkpoint lets it forget.
 *
 * A client without recovery has no log: what closures and operations call takes NULL for it, and
 * does nothing then.
 *
 * Any thread. An entry costs an append (and, with more than 64 ps, an allocation); nothing
 * is copied but what operations wrote.
 */
#ifndef COXI_COORDINATOR_BASE_REPLAY_LOG_H
#define COXI_COORDINATOR_BASE_REPLAY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

struct coxi_closure;
struct coxi_loading;
struct coxi_replay_log;

enum coxi_replay_kind {
    COXI_REPLAY_CALL,
    COXI_REPLAY_CREATE,
    COXI_REPLAY_UPDATE,
    COXI_REPLAY_LOAD,
    COXI_REPLAY_BARRED,
};

/*
 * How far an operation of the client's own has come. What it does counts as in the ps only
 * once each of those that it touches has acknowledged it: until then a checkpoint may have
 * caught some of them with it and others without.
 *
 *   HELD -> OPEN   it begins
 *   OPEN -> DONE   everybody has it
 *   OPEN -> HELD   it has failed somewhere, and the ps are asked who has it
 *   HELD -> DONE   they have answered: some do
 */
enum coxi_replay_state {
    COXI_REPLAY_DONE, /* as everything that is no operation */
    COXI_REPLAY_OPEN,
    COXI_REPLAY_HELD, /* and no ps is given it by a replay */
};

/* An update of the client's own: `count` rows from `begin`; a rate (COXI_OP_RATE) is of no rows,
 * and on every ps that has a part of the variable. */
struct coxi_replay_update {
    const struct coxi_variable *variable; /* lives until close */
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    size_t bytes;
    uint8_t data[];
};

struct coxi_replay_entry {
    uint64_t id;
    uint64_t position; /* its place in a replay, before calls of that id; 0: its id */
    enum coxi_replay_kind kind;
    enum coxi_replay_state state;
    uint32_t n_words; /* of the set of ps that a call touched */
    union {
        struct coxi_closure *call;           /* a reference */
        const struct coxi_variable *created; /* lives until close */
        struct coxi_replay_update *update;   /* owned */
        struct coxi_loading *loading;        /* a reference */
    };
    uint64_t bytes; /* that it counts for */
    union {
        uint64_t word;   /* where one will do */
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

/*
 * What the log does with closures and loadings, of which it knows nothing else. `bytes`: what one
 * counts for, asked with the log's lock; the others without. Any thread.
 */
struct coxi_replay_refs {
    uint64_t (*call_bytes)(const struct coxi_closure *call);
    void (*call_forgotten)(struct coxi_closure *call); /* takes the log's reference */
    uint64_t (*loading_bytes)(const struct coxi_loading *loading);
    void (*loading_ref)(struct coxi_loading *loading);
    void (*loading_unref)(struct coxi_loading *loading);
};

/* `bytes_max` of arguments, results and data. Copies `refs`. */
int coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                        const struct coxi_replay_refs *refs,
                        struct coxi_replay_log **ret);
void coxi_replay_log_free(struct coxi_replay_log *log); /* takes NULL */

/* A call that is done and has touched those ps. Takes a reference to it; COX_ENOMEM: does not. */
int coxi_replay_log_call(struct coxi_replay_log *log, uint64_t id,
                         struct coxi_closure *call, const uint32_t *touched,
                         size_t n_touched);
int coxi_replay_log_barred(struct coxi_replay_log *log, uint64_t id);

/* An update for an entry: `data` is copied. NULL: no memory. */
struct coxi_replay_update *coxi_replay_update_new(const struct coxi_variable *variable,
                                                  enum coxi_op op, uint64_t begin,
                                                  uint64_t count, const void *data);

/* True where ps `ps` holds rows that the update is of, or is to have the rate. */
bool coxi_replay_update_is_on(const struct coxi_replay_update *update, uint32_t ps);

/* Bytes of what an update of so many rows carries. */
size_t coxi_replay_update_bytes(const struct coxi_variable *variable, enum coxi_op op,
                                uint64_t count);

/* An operation: its id, kind, state and what it is. Takes its update; takes a reference of
 * its own to a loading. COX_ENOMEM: nothing is taken. */
int coxi_replay_log_operation(struct coxi_replay_log *log,
                              const struct coxi_replay_entry *operation);

/* The operation of that id, if it is there, is in another state. An update may have several
 * entries: one for each stretch of its rows. */
void coxi_replay_log_set(struct coxi_replay_log *log, uint64_t id,
                         enum coxi_replay_state state);

/* Of the update of that id, the entry whose rows begin at `begin` is HELD. Others of it are as
 * they were: what ps have of those a replay gives back. */
void coxi_replay_log_hold(struct coxi_replay_log *log, uint64_t id, uint64_t begin);

/*
 * Of the update of that id, the entry whose rows begin at `begin` is done, with those of its
 * rows and no others; where no entry has rows any more, the update must never apply. COX_ENOMEM:
 * it is as it was.
 */
int coxi_replay_log_narrow(struct coxi_replay_log *log, uint64_t id, uint64_t begin,
                           const struct coxi_range *ranges, size_t n);

/*
 * How many entries came before this moment and before the oldest operation that is not done:
 * a checkpoint whose ps are asked from now on has all of these. What comes after the mark it
 * may have on some ps and not on others.
 */
uint64_t coxi_replay_log_mark(struct coxi_replay_log *log);

/* A durable checkpoint has everything that came before the mark. */
void coxi_replay_log_forget(struct coxi_replay_log *log, uint64_t mark);

/*
 * True where so much is in it that, `next_id` being the next, it is half full (not counting
 * operations that are not done, of which no checkpoint lets go), or full. What waits for room may
 * be what lets a held operation begin: a program that goes on creates its variables before it
 * loads the modules that an older client's closures need. So held operations do not make it full.
 */
bool coxi_replay_log_is_due(struct coxi_replay_log *log, uint64_t next_id);
bool coxi_replay_log_is_full(struct coxi_replay_log *log, uint64_t next_id);

/* The operation of that id has not come about after all: it must never apply. */
void coxi_replay_log_retract(struct coxi_replay_log *log, uint64_t id);

/* The lowest id of a call that is in it; UINT64_MAX: none is. */
uint64_t coxi_replay_log_oldest_call(const struct coxi_replay_log *log);

/* Calls `visit` for each entry since the mark, in any order, as coxi_replay_log_each does. */
int coxi_replay_log_each_since(struct coxi_replay_log *log, uint64_t mark,
                               int (*visit)(void *arg,
                                            const struct coxi_replay_entry *entry),
                               void *arg);

/* Calls `visit` for each entry by rising position, operations before calls, until it returns other than 0, which is
 * returned then. `visit` calls nothing of the log's. */
int coxi_replay_log_each(struct coxi_replay_log *log,
                         int (*visit)(void *arg, const struct coxi_replay_entry *entry),
                         void *arg);

#endif
