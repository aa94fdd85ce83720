/*
 * The variables of a run, as its steps hold them: found by name.
 *
 * Threads: one at a time adds; any thread looks up meanwhile, without a lock.
 * Cost: a look-up is O(1); no look-up waits.
 */
#ifndef COXI_WORKER_VARIABLES_H
#define COXI_WORKER_VARIABLES_H

#include "common/layout.h"
#include "common/names.h"

struct coxi_copy;

/* A variable as steps hold it, an item of `names`. It never moves, and stays until
 * coxi_variables_fini. */
struct cox_variable {
    struct coxi_named named;
    struct coxi_variable *description;
    /* computed from the description, because each pull and push needs them */
    size_t row_bytes;
    size_t wire_bytes;    /* of a row that a ps sends */
    size_t size;          /* of a number */
    size_t wire_size;     /* of a number that a ps sends, or of a gradient */
    float gradient_limit; /* coxi_optimizer_gradient_limit */
    bool counts;          /* every shard counts each gradient */
    /* its places in coxi_versions begin here: one for each shard, or each ps of a table */
    size_t versions;
    size_t n_versions; /* 0: the staleness of its gradients is not counted */
    /* the copy for COX_PULL_CACHED, or NULL; guarded by the run's lock */
    struct coxi_copy *copy;
    char name[]; /* here because a look-up reads it together with `named` */
};

/* Zeroed is valid and empty. */
struct coxi_variables {
    struct coxi_names names;
    struct cox_variable **by_id; /* NULL: no variable has this id */
    size_t n;                    /* entries of by_id */
    size_t n_versions;           /* places in coxi_versions that variables have */
};

/* Adds a variable, whose shards are on ps below n_ps. A variable that is known already
 * stays as it is. COX_EPROTO, COX_ENOMEM. */
int coxi_variables_add(struct coxi_variables *variables,
                       const struct coxi_variable *variable, uint32_t n_ps);

void coxi_variables_fini(struct coxi_variables *variables);

#endif
