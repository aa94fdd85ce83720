/* What store.c, pull.c, commit.c, snapshot.c, restore.c, load.c, describe.c and counts.c
 * share. Not for others. */
#ifndef COXI_PS_STORE_INTERNAL_H
#define COXI_PS_STORE_INTERNAL_H

#include <stdatomic.h>

#include "common/optimizer.h"
#include "common/sync.h"
#include "ps/applied.h"
#include "ps/dense.h"
#include "ps/ends.h"
#include "ps/memory.h"
#include "ps/part_names.h"
#include "ps/served.h"
#include "ps/staleness.h"
#include "ps/store.h"
#include "ps/table.h"

/* This ps's part of a variable: a table, or a shard of a dense variable, or nothing. */
struct coxi_part {
    /* its rate is the current one; changed with the registry written */
    struct coxi_variable *variable;
    struct coxi_optimizer created; /* the optimizer as it was created */
    bool rated;                    /* its rate was changed since */
    const struct coxi_shard *shard;
    /* the n-th creation in the store: tells apart parts that had the same id */
    uint64_t made;
    size_t row_bytes;                /* in the variable's own type */
    struct coxi_state_layout layout; /* of the optimizer's state */
    struct coxi_dense *dense;
    struct coxi_table *table;
    struct coxi_stale *stale; /* of its gradients; NULL: they are not counted */
};

/* The snapshot that was written last, so that a repeated request for it can be
 * answered. */
struct coxi_last_snapshot {
    struct coxi_session session;
    uint64_t number; /* 0: none */
    struct coxi_snapshot_file file;
};

/* The snapshots on which the next one may build, by number. */
struct coxi_tracking {
    uint64_t last; /* the snapshot that was cut last; 0: changes are not noted */
    /* the snapshot whose cut began the earlier span (`before` in table_track.c); 0:
     * none */
    uint64_t base;
};

struct coxi_rounds;
struct coxi_taking;
struct coxi_restoring;

struct coxi_store {
    uint32_t ps_index;
    const char *root;                  /* of snapshots, or NULL; constant */
    atomic_uint_least64_t incarnation; /* changed with the registry written */
    struct coxi_served served;

    /* guards session, claimed, parts, applied, rounds and workers (the pointers), and
     * the fields of restores */
    struct coxi_rwlock registry;
    struct coxi_session session;
    bool claimed;
    struct coxi_part *parts; /* by variable id */
    size_t n_parts;
    size_t room; /* entries allocated in `parts` */
    /* parts made in the store's life; changed with the registry written */
    uint64_t n_made;
    struct coxi_part_names names;
    struct coxi_applied *applied;
    struct coxi_rounds *rounds; /* what waits for the end of a round */
    struct coxi_ends ends;      /* for pulls that wait for the end of a round */
    struct coxi_stale_workers *workers;
    uint64_t restored;    /* the round of the last restore, or 0 ... */
    uint64_t restored_at; /* ... and the number of its last file */
    /* the restore that is under way, or NULL; `parts` does not change meanwhile */
    struct coxi_restoring *restoring;
    /* how often a restore was abandoned: needs no lock, so that nobody waits to abandon
     * one (ps/restore.c) */
    atomic_uint abandons;
    /* a restore has begun, and its last file was not loaded yet */
    bool unready;

    struct coxi_memory memory; /* of all parts */
    struct coxi_memory *work;  /* where the memory of commits in work counts, or NULL */
    uint32_t variables_max;    /* 0: no limit */
    struct coxi_rwlock moment; /* read: a commit is under way; written: a cut is made */
    struct coxi_tracking tracking; /* guarded like `taking` */
    /* the snapshot that is being written, or NULL; changed with `moment`, or with the
     * registry, written */
    struct coxi_taking *taking;

    /* Of the run that has the store; 0 again when the run is forgotten. */
    struct coxi_mutex snapshots; /* one at a time; guards `last`; before registry */
    struct coxi_last_snapshot last;

    atomic_uint_least64_t commits;
    atomic_uint_least64_t duplicates;
    atomic_uint_least64_t pulls;
    /* numbers that became infinite in a narrow type when they were sent */
    atomic_uint_least64_t infinite;
};

/* The name of a part's tensor in checkpoints: "name", "name/part_2", "name/keys",
 * "name/part_2/adagrad" ... `suffix` NULL: the values of a dense variable. */
enum { COXI_TENSOR_NAME_MAX = COXI_WIRE_NAME_MAX + 64 };
void coxi_part_tensor_name(const struct coxi_part *part, const char *suffix,
                           char ret[COXI_TENSOR_NAME_MAX]);

/* COX_EFENCED unless `session` has claimed the store. Registry read. */
int coxi_store_fenced(const struct coxi_store *store,
                      const struct coxi_session *session);

/* Like coxi_store_fenced; also COX_EPSLOST if a restore has begun and is not done,
 * because the store does not have the session's content yet. Registry read. */
int coxi_store_ready(const struct coxi_store *store,
                     const struct coxi_session *session);

/* Like coxi_store_ready; also COX_EPSLOST unless the request is for this incarnation.
 * An older client of the run gets COX_EFENCED in any case. Registry read. */
int coxi_store_check(const struct coxi_store *store, const struct coxi_session *session,
                     uint64_t incarnation);

/* The version of a part that holds rows: it rises with every update. */
static inline uint64_t coxi_part_version(const struct coxi_part *part)
{
    return part->table != NULL ? coxi_table_version(part->table)
                               : coxi_dense_version(part->dense);
}

/* Gives a part another rate, which later snapshots contain. COX_EINVAL. Registry
 * written. */
int coxi_part_rate(struct coxi_part *part, const struct coxi_rate *rate);

/* The rows of an item of a pull or an update: keys of a table (`rows.listed`), or rows
 * of a dense variable. */
struct coxi_place {
    struct coxi_part *part;
    struct coxi_dense_rows rows;
    size_t row_bytes; /* in the variable's own type */
};

/* Finds an item's part, and takes the keys or rows that are listed for it off the *len
 * bytes (8-aligned) at *at. COX_ENOENT, COX_EINVAL. Registry read. */
int coxi_store_find(const struct coxi_store *store, uint64_t variable, uint64_t begin,
                    uint64_t count, const uint8_t **at, size_t *len,
                    struct coxi_place *ret);

/* COX_EINVAL unless all of the rows are on this ps, COX_ELIMIT if they are too many to
 * send. */
int coxi_store_holds(const struct coxi_store *store, const struct coxi_place *place);

#endif
