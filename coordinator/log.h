/*
 * The replay log: what has to be done again where a ps has lost what it had. Since the
 * checkpoint that a restore would start from: closures that are done, with the ps that they
 * touched; what the client itself created, changed and loaded; and closures that must never apply
 * (failed, cancelled).
 *
 * Bounded in bytes and in the ids it spans: when it is full, nothing more is scheduled until
 * a checkpoint lets it forget.
 *
 * Any thread. An entry costs an append (and, with more than 64 ps, an allocation); nothing
 * is copied but what operations wrote.
 */
#ifndef COXI_COORDINATOR_LOG_H
#define COXI_COORDINATOR_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

struct cox_future;
struct coxi_loading;
struct coxi_log;

enum coxi_log_kind {
    COXI_LOG_CALL,
    COXI_LOG_CREATE,
    COXI_LOG_UPDATE,
    COXI_LOG_LOAD,
    COXI_LOG_BARRED,
};

/* An update of the client's own: `count` rows from `begin`. */
struct coxi_log_update {
    const struct coxi_variable *variable; /* lives until close */
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    size_t bytes;
    uint8_t data[];
};

struct coxi_log_entry {
    uint64_t id;
    enum coxi_log_kind kind;
    uint32_t n_words; /* of the set of ps that a call touched */
    union {
        struct cox_future *call;             /* a reference */
        const struct coxi_variable *created; /* lives until close */
        struct coxi_log_update *update;      /* owned */
        struct coxi_loading *loading;        /* a reference */
    };
    uint64_t bytes; /* that it counts for */
    union {
        uint64_t word;   /* where one will do */
        uint64_t *words; /* owned; bit p % 64 of word p / 64 */
    } touched;
};

static inline bool coxi_log_touched(const struct coxi_log_entry *entry, uint32_t ps)
{
    const uint64_t *words =
        entry->n_words > 1 ? entry->touched.words : &entry->touched.word;
    return (words[ps / 64] >> (ps % 64) & 1) != 0;
}

/* `bytes_max` of arguments, results and data. */
int coxi_log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_log **ret);
void coxi_log_free(struct coxi_log *log); /* takes NULL */

/* A call that is done, of which the log takes a reference where it keeps it: not of one
 * that touched no ps. COX_ENOMEM. */
int coxi_log_call(struct coxi_log *log, struct cox_future *call,
                  const uint32_t *touched, size_t n_touched);
int coxi_log_barred(struct coxi_log *log, uint64_t id);
int coxi_log_create(struct coxi_log *log, uint64_t id,
                    const struct coxi_variable *variable);
int coxi_log_update(struct coxi_log *log, uint64_t id,
                    const struct coxi_log_update *update); /* copied */
int coxi_log_load(struct coxi_log *log, uint64_t id,
                  struct coxi_loading *loading); /* takes a reference of its own */

/* How many entries there have been: what came before this moment. */
uint64_t coxi_log_mark(struct coxi_log *log);

/* A durable checkpoint has everything that came before the mark. */
void coxi_log_forget(struct coxi_log *log, uint64_t mark);

/* True where so much is in it that, `next_id` being the next, it is half full, or full. */
bool coxi_log_is_due(struct coxi_log *log, uint64_t next_id);
bool coxi_log_is_full(struct coxi_log *log, uint64_t next_id);

/* The update or load of that id has not come about after all: it must never apply. */
void coxi_log_retract(struct coxi_log *log, uint64_t id);

/* Calls `visit` for each entry since the mark, in any order, as coxi_log_each does. */
int coxi_log_each_since(struct coxi_log *log, uint64_t mark,
                        int (*visit)(void *arg, const struct coxi_log_entry *entry),
                        void *arg);

/* Calls `visit` for each entry by rising id, until it returns other than 0, which is
 * returned then. `visit` calls nothing of the log's. */
int coxi_log_each(struct coxi_log *log,
                  int (*visit)(void *arg, const struct coxi_log_entry *entry),
                  void *arg);

#endif
