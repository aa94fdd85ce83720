/* What store.c, pull.c, commit.c, snapshot.c, restore.c, load.c and describe.c share. Not for others. */
#ifndef COXI_PS_STORE_INTERNAL_H
#define COXI_PS_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ps/applied.h"
#include "ps/dense.h"
#include "ps/memory.h"
#include "ps/optimizer.h"
#include "ps/part_names.h"
#include "ps/served.h"
#include "ps/store.h"
#include "ps/table.h"

/* This ps's part of a variable: a table, or a shard of a dense one (or none of it
 * here). */
struct coxi_part {
    struct coxi_variable *variable; /* its rate as it is now: changed with the registry
                                       written */
    struct coxi_optimizer created;  /* as it was then */
    bool rated;                     /* it has been given another rate since */
    const struct coxi_shard *shard;
    struct coxi_state_layout layout; /* of the optimizer's state */
    struct coxi_dense *dense;
    struct coxi_table *table;
};

/* The snapshot that was written last: a request for it that comes again is answered. */
struct coxi_last_snapshot {
    struct coxi_session session;
    uint64_t number; /* 0: none */
    struct coxi_snapshot_file file;
};

/* Numbers of snapshots, for those that build on another. */
struct coxi_tracking {
    uint64_t last; /* whose cut was the last; 0: nothing is noted */
    uint64_t base; /* after whose cut the span before that began; 0: after none */
};

struct coxi_taking;
struct coxi_restoring;

struct coxi_store {
    uint32_t ps_index;
    atomic_uint_least64_t incarnation; /* changed with the registry written */
    struct coxi_served served;

    /* guards session, claimed, parts, applied (the pointer), what is restored */
    pthread_rwlock_t registry;
    struct coxi_session session;
    bool claimed;
    struct coxi_part *parts; /* by variable id */
    size_t n_parts;
    size_t room; /* for so many of them */
    struct coxi_part_names names;
    struct coxi_applied *applied;
    uint64_t restored;                /* the round of the last restore, or 0 ... */
    uint64_t restored_at;             /* ... and how many files of it */
    struct coxi_restoring *restoring; /* the restore that is under way, or NULL: parts
                                         stay as they are for as long as it is */
    bool unready;                     /* one has begun, and not all of it is there */

    struct coxi_memory memory; /* of all parts */
    pthread_rwlock_t moment;   /* read: a commit is under way; written: a cut is made */
    struct coxi_tracking tracking; /* guarded as `taking` is */
    struct coxi_taking
        *taking; /* the snapshot that is being written, or NULL: changed with
                                   the moment, or the registry, written */

    /* Of the run that has the store: 0 again when it is forgotten. */
    pthread_mutex_t snapshots; /* one at a time; guards `last`; before registry */
    struct coxi_last_snapshot last;

    atomic_uint_least64_t commits;
    atomic_uint_least64_t duplicates;
    atomic_uint_least64_t pulls;
    atomic_uint_least64_t infinite; /* numbers that left narrow, and so infinite */
};

/* What a tensor of a part is called in checkpoints: "name", "name/part_2", "name/keys",
 * "name/part_2/adagrad" ... `suffix` NULL: the values of a dense variable. */
enum { COXI_TENSOR_NAME_MAX = COXI_WIRE_NAME_MAX + 64 };
void coxi_part_tensor_name(const struct coxi_part *part, const char *suffix,
                           char ret[COXI_TENSOR_NAME_MAX]);

/* COX_EFENCED unless the session is the one that has the store. Registry read. */
int coxi_store_fenced(const struct coxi_store *store,
                      const struct coxi_session *session);

/* The same, and COX_EPSLOST where a restore has begun that is not done: what is here is not
 * what the session has. Registry read. */
int coxi_store_ready(const struct coxi_store *store,
                     const struct coxi_session *session);

/* The same, and COX_EPSLOST unless the request is for this incarnation; of an older client of
 * the run it is COX_EFENCED all the same. Registry read. */
int coxi_store_check(const struct coxi_store *store, const struct coxi_session *session,
                     uint64_t incarnation);

/* Gives a part another rate; it is in the snapshots from then on. COX_EINVAL. Registry
 * written. */
int coxi_part_rate(struct coxi_part *part, const struct coxi_rate *rate);

/* What an item of a pull or an update is about: keys of a table (`rows.listed`), or rows of
 * a dense variable. */
struct coxi_place {
    struct coxi_part *part;
    struct coxi_dense_rows rows;
    size_t row_bytes; /* in the variable's own type */
};

/*
 * Finds it, and takes the keys or rows that are listed for it off the *len bytes (8-aligned)
 * at *at. COX_ENOENT, COX_EINVAL. Registry read.
 */
int coxi_store_find(const struct coxi_store *store, uint64_t variable, uint64_t begin,
                    uint64_t count, const uint8_t **at, size_t *len,
                    struct coxi_place *ret);

/* COX_EINVAL unless all of the rows are here, COX_ELIMIT where they are too many to send. */
int coxi_store_holds(const struct coxi_store *store, const struct coxi_place *place);

#endif
