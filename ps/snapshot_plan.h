/*
 * What a snapshot's file is made of (ps/snapshot.c writes it): of each variable that is here,
 * cut at one moment, the tensors
 *   <name> or <name>/part_<i>     a dense variable, or its i-th shard
 *   <name>/keys, <name>/values    a table: U64 [rows], F32 [rows, dim]
 *   .../<state>                   optimizer state (ps/optimizer.h): F32, in the shape of
 *                                 the values, or [rows] where it is one for a row
 *   <name>/last, made, updates    of a table whose rows go again: U64 [rows] each, what
 *                                 struct coxi_row_life says (ps/table.h)
 *   .../step                      of what has an optimizer: U64 [1], updates by gradients
 *   .../rate                      where it is not the one of the creation: F64 [7], the
 *                                 learning rate and its schedule (struct coxi_rate)
 * One that builds on another has of tables the rows that were touched since and are still
 * there, and
 *   <name>/removed                U64 [n]: keys of rows that went since; those that are among
 *                                 the keys, too, were made again
 * and of dense variables those alone that were updated since, each as a whole.
 *
 * A plan outlives the variables that it was made of; only the thread that writes touches it.
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
    COXI_CONTENT_STATE, /* the first kind; the others follow */
};
enum { COXI_CONTENTS = COXI_CONTENT_STATE + COXI_STATES_MAX };

/* A part, and where each of its contents is in the file. */
struct coxi_planned {
    struct coxi_part part;
    struct coxi_table_cut *table; /* one of the two, or neither: it has not changed */
    struct coxi_dense_cut *dense;
    size_t dim; /* of a table */
    bool has_step;
    uint64_t step;
    bool has_rate;
    struct coxi_rate rate;
    uint64_t *removed; /* keys of a table that went */
    size_t n_removed;
    size_t n_states; /* kinds of state ... */
    size_t n_slots;  /* ... of which these are in the shape of the values */
    size_t tensors[COXI_CONTENTS]; /* numbers, of those that there are */
};

struct coxi_plan {
    struct coxi_planned *parts;
    size_t n_parts;
    struct coxi_st_tensor *tensors;
    char (*names)[COXI_TENSOR_NAME_MAX];
    size_t n_tensors;
    size_t room_bytes; /* for the largest block or piece */
};

/* A cut for every part that has something. COX_ENOMEM. Registry read. */
int coxi_plan_cut(const struct coxi_store *store, struct coxi_plan *plan);

/* The tensors, once all cuts have begun, those of what `changed` or of all. COX_ENOMEM.
 * Registry read. */
int coxi_plan_tensors(struct coxi_plan *plan, bool changed);

/* Frees what it has but the cuts. Takes a zeroed one. */
void coxi_plan_fini(struct coxi_plan *plan);

#endif
