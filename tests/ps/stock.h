/* A store for tests, claimed by a session, and commits made in a few lines. */
#ifndef COXI_TESTS_PS_STOCK_H
#define COXI_TESTS_PS_STOCK_H

#include "common/layout.h"
#include "ps/store.h"

enum { STOCK_INCARNATION = 77, STOCK_UPDATES_MAX = 32 };

struct stock {
    struct coxi_store *store;
    struct coxi_session session;
    uint64_t closure; /* the last one used */
    uint32_t n_variables;
};

/* Opens the store of ps 0, claimed by run 1, generation 1. */
void stock_open(struct stock *stock);
void stock_close(struct stock *stock);

/* Creates a variable under the next closure and variable id; returns the id. */
uint32_t stock_create(struct stock *stock, struct coxi_variable *variable);

/* The same for `n` elements in one shard without optimizer, and for a table with SGD at
 * rate 1. */
uint32_t stock_dense(struct stock *stock, const char *name, uint32_t dtype, uint64_t n);
uint32_t stock_table(struct stock *stock, const char *name, uint32_t dim);

/* Such a table, whose rows have this lifecycle. */
uint32_t stock_table_of(struct stock *stock, const char *name, uint32_t dim,
                        const struct coxi_lifecycle *lifecycle);

/* A table "t" and a variable "w" of `n` elements in one shard, with this optimizer, as
 * variables 0 and 1. */
void stock_pair(struct stock *stock, uint32_t dim, uint64_t n,
                const struct coxi_optimizer *optimizer);

struct stock_commit {
    struct coxi_commit head;
    struct coxi_update updates[STOCK_UPDATES_MAX];
    struct coxi_buffer payload;
};

/* Begins an empty commit of `closure`; updates are sent in the order in which they were
 * added. */
void stock_begin(const struct stock *stock, uint64_t closure, struct stock_commit *ret);
void stock_add(struct stock_commit *commit, uint32_t variable, uint32_t op,
               uint64_t begin, uint64_t count, const void *values, size_t bytes);
void stock_add_rows(struct stock_commit *commit, uint32_t table, uint32_t op,
                    const uint64_t *keys, size_t n, const float *values, size_t bytes);

/* Commits and frees the payload; returns the code. `ret_duplicate` may be NULL. */
int stock_commit(struct stock *stock, struct stock_commit *commit, bool *ret_duplicate);

/* Pulls `count` elements of a variable that has one shard, or a row of a table; returns
 * the version. */
uint64_t stock_pull(struct stock *stock, uint32_t variable, uint64_t count, void *ret,
                    size_t bytes);
uint64_t stock_pull_row(struct stock *stock, uint32_t table, uint64_t key, void *ret,
                        size_t bytes);

int64_t stock_number(struct stock *stock, uint32_t variable); /* of one I64 */

/* Adds 1 to a variable of one I64 under `closure`; returns the code. */
int stock_count(struct stock *stock, uint32_t variable, uint64_t closure,
                bool *ret_duplicate);

/* Writes a whole snapshot; the caller frees the applied set of what is returned. */
struct coxi_snapshot_file stock_take(struct stock *stock, uint64_t number, char *path);

/* Restores the store from such a file; returns the code. */
int stock_restore(const struct stock *stock, uint64_t round, char *path,
                  const struct coxi_snapshot_file *file);

/* The store's counts of this run. */
struct coxi_counters stock_counts(struct stock *stock);

#endif
