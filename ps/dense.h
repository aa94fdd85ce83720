/*
 * The shard of a dense variable that lives on this ps, with its optimizer state. Reads
 * and updates are atomic for each 4 KiB block of it: a block is never read half-written.
 * Any thread; updates of different blocks, and different shards, run side by side.
 */
#ifndef COXI_PS_DENSE_H
#define COXI_PS_DENSE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/layout.h"
#include "ps/optimizer.h"

struct coxi_dense;
struct coxi_memory;

/* A shard filled by the variable's initializer; it counts for `memory` (may be NULL). All
 * are borrowed for its life. COX_ENOMEM. */
int coxi_dense_new(const struct coxi_variable *variable, const struct coxi_shard *shard,
                   struct coxi_memory *memory, struct coxi_dense **ret);
void coxi_dense_free(struct coxi_dense *dense); /* takes NULL */

/* True where `op` can be applied to elements of the variable's type. */
bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op);

/* Rows of the variable: `count` from `begin` on, or, where `listed` is not NULL, those (any
 * order, also more than once). */
struct coxi_dense_rows {
    const uint64_t *listed;
    uint64_t begin;
    uint64_t count;
};

/* True where all of them are in the shard. */
bool coxi_dense_holds(const struct coxi_dense *dense,
                      const struct coxi_dense_rows *rows);

/*
 * Copies the rows' elements, all of which the shard holds, from byte `at` of them on: `len`
 * bytes, as if they lay one after the other. `narrow` not 0: in that type, which takes half
 * as many bytes; `at` and `len` are the elements' own all the same, multiples of 4.
 */
void coxi_dense_read(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                     size_t at, size_t len, uint32_t narrow, void *ret);

/* The most of `room` bytes from byte `at` on that end with a block or one of the listed
 * rows: reading on from there, none is read in two states. `room` is two blocks at least,
 * and there are as many bytes. */
size_t coxi_dense_whole(const struct coxi_dense *dense,
                        const struct coxi_dense_rows *rows, size_t at, size_t room);

/*
 * Applies values to rows, all of which the shard holds; a gradient is one step of the
 * variable here, also where it has no row, may be narrow (`dtype` of its values), moves these
 * rows and their state alone, and is of the schedule's `step`. Cannot fail.
 */
void coxi_dense_update(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                       enum coxi_op op, uint64_t step, uint32_t dtype,
                       const void *values);

/* The same with gradients that are multiplied by `loss_scale` (0: by nothing). */
void coxi_dense_update_scaled(struct coxi_dense *dense,
                              const struct coxi_dense_rows *rows, enum coxi_op op,
                              uint64_t step, uint32_t dtype, const void *values,
                              float loss_scale);

/*
 * Goes up with every update, from 2 on. What is read after it was asked for is as new as
 * that at least.
 */
uint64_t coxi_dense_version(const struct coxi_dense *dense);

/* Sets `count` rows from `begin` on, which the shard holds, to what a checkpoint has of
 * them. `states`: theirs, and the number of gradients; NULL: both stay. Any thread. */
void coxi_dense_load(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     const void *data, const float *const *states, uint64_t step);

/* Updates by gradients so far; memory of elements and state. Any thread. */
uint64_t coxi_dense_step(const struct coxi_dense *dense);
size_t coxi_dense_bytes(const struct coxi_dense *dense);

/* What the shard is beside its values has changed: it counts as changed. */
void coxi_dense_touch(struct coxi_dense *dense);

/* ---- what changes: as coxi_table_track_cut, but that a shard has changed or it has not */

void coxi_dense_track_cut(struct coxi_dense *dense, bool drop_before);
bool coxi_dense_track_changed(const struct coxi_dense *dense);

/* ---- cuts: what the shard holds at one moment, read while updates go on */

struct coxi_dense_cut;

/* Makes one, which is not begun. COX_ENOMEM. */
int coxi_dense_cut_new(struct coxi_dense *dense, struct coxi_dense_cut **ret);
void coxi_dense_cut_free(struct coxi_dense_cut *cut); /* takes NULL */

/* From here on it holds the shard as it is now, to the end. While no update is under way; a
 * shard has one at a time, and frees it with itself. */
void coxi_dense_cut_begin(struct coxi_dense_cut *cut);
void coxi_dense_cut_end(struct coxi_dense_cut *cut);

/* Updates by gradients, of that moment; bytes of what updates have copied for it so far. */
uint64_t coxi_dense_cut_step(const struct coxi_dense_cut *cut);
uint64_t coxi_dense_cut_saved(const struct coxi_dense_cut *cut);

/* A piece of it: `bytes` bytes each of the elements (array 0) or kinds of state (1 + which)
 * `first` to `first` + `n`, one after the other. Those of an array come in order. */
struct coxi_dense_piece {
    size_t first;
    size_t n; /* 0: there is no more */
    size_t bytes;
};

/* Puts the next piece at `room`, which has COXI_DENSE_CUT_ROOM bytes. COX_ENOMEM: an update
 * could not copy what it was about to change; the rest cannot be read any more. Any thread,
 * one at a time. */
enum { COXI_DENSE_CUT_ROOM = 4 * COXI_DENSE_BLOCK * (1 + COXI_STATES_MAX) };
int coxi_dense_cut_next(struct coxi_dense_cut *cut, void *room,
                        struct coxi_dense_piece *ret);

#endif
