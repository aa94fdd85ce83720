/*
 * The plan of a snapshot's file (ps/snapshot.c writes it): for each variable of this
 * ps, cut at one moment, these tensors:
 *   <name> or <name>/part_<i>     a dense variable, or its i-th shard
 *   <name>/keys, <name>/values    a table: U64 [rows], F32 [rows, dim]
 *   .../<state>                   optimizer state (common/rule.h): F32, in the shape
 *                                 of the values, or [rows]: one number for a row
 *   <name>/last, made, updates    if rows are evicted: U64 [rows] each, the fields of
 *                                 struct coxi_row_life (ps/table.h)
 *   .../step                      if there is an optimizer: U64 [1], gradient updates
 *   .../rate                      if it was changed since the creation: F64 [7], the
 *                                 learning rate and its schedule (struct coxi_rate)
 * A snapshot that builds on another has, of each table, the rows that were touched
 * since then and still exist, and
 *   <name>/removed                U64 [n]: keys of rows that were dropped since; a key
 *                                 that is also among the keys was made again
 * and those dense variables that were updated since then, each as a whole.
 *
 * A plan outlives the variables that it was made of; only the thread that writes
 * touches it.
 */
#ifndef COXI_PS_SNAPSHOT_PLAN_H
#define COXI_PS_SNAPSHOT_PLAN_H

#include "checkpoint/safetensors.h"
#include "ps/store_internal.h"

enum coxi_content {
    COXI_CONTENT_VALUES,
    COXI_CONTENT_KEYS,
    COXI_CONTENT_LAST,
    COXI_CONTENT_MADE,
    COXI_CONTENT_UPDATES,
    COXI_CONTENT_STEP,
    COXI_CONTENT_REMOVED,
    COXI_CONTENT_RATE,
    COXI_CONTENT_STATE, /* the first kind of state; the others follow */
};
enum { COXI_CONTENTS = COXI_CONTENT_STATE + COXI_STATES_MAX };

/* A part, and where its contents are in the file. */
struct coxi_planned {
    struct coxi_part part;
    /* One of the two is NULL; both are NULL if the part has not changed. */
    struct coxi_table_cut *table;
    struct coxi_dense_cut *dense;
    size_t dim; /* of a table */
    bool has_step;
    uint64_t step;
    bool has_rate;
    struct coxi_rate rate;
    uint64_t *removed; /* keys of rows that were dropped */
    size_t n_removed;
    size_t n_states;               /* kinds of state ... */
    size_t n_slots;                /* ... of which these have the shape of the values */
    size_t tensors[COXI_CONTENTS]; /* tensor numbers of the contents that exist */
};

struct coxi_plan {
    struct coxi_planned *parts;
    size_t n_parts;
    struct coxi_st_tensor *tensors;
    char (*names)[COXI_TENSOR_NAME_MAX];
    size_t n_tensors;
    size_t room_bytes; /* enough for the largest block or piece */
};

/* Makes a cut of every table and of every dense variable that has rows on this ps.
 * COX_ENOMEM. Registry read. */
int coxi_plan_cut(const struct coxi_store *store, struct coxi_plan *plan);

/* Lists the tensors of all parts, or only of those that changed (`changed`). Call it
 * after all cuts have begun. COX_ENOMEM. Registry read. */
int coxi_plan_tensors(struct coxi_plan *plan, bool changed);

/* Frees all of the plan except the cuts. Takes a zeroed one. */
void coxi_plan_fini(struct coxi_plan *plan);

#endif
