/*
 * The shard of a dense variable that this ps holds, with its optimizer state. Reads and
 * updates are atomic for each 4 KiB block: a block is never read half-written. Any
 * thread; updates of different blocks, and of different shards, run side by side.
 */
#ifndef COXI_PS_DENSE_H
#define COXI_PS_DENSE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/layout.h"
#include "common/optimizer.h"

struct coxi_dense;
struct coxi_memory;

/* A shard filled by the variable's initializer. It counts for `memory` (may be NULL).
 * All arguments are borrowed for its life. COX_ENOMEM. */
int coxi_dense_new(const struct coxi_variable *variable, const struct coxi_shard *shard,
                   struct coxi_memory *memory, struct coxi_dense **ret);
void coxi_dense_free(struct coxi_dense *dense); /* takes NULL */

/* True if `op` can be applied to elements of the variable's type. */
bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op);

/* Rows of the variable: `count` from `begin` on or, if `listed` is not NULL, the
 * `count` rows listed there (in any order; a row may be listed more than once). */
struct coxi_dense_rows {
    const uint64_t *listed;
    uint64_t begin;
    uint64_t count;
};

/* True if the shard holds all of the rows. */
bool coxi_dense_holds(const struct coxi_dense *dense,
                      const struct coxi_dense_rows *rows);

/*
 * Copies the elements of the rows, all of which the shard holds: `len` bytes from byte
 * `at` on, counted as if the rows lay one after the other. `narrow` not 0: converts
 * them to that type, which takes half as many bytes; `at` and `len` still count bytes
 * of the elements' own type, and are multiples of 4.
 */
void coxi_dense_read(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                     size_t at, size_t len, uint32_t narrow, void *ret);

/*
 * How many bytes to read from byte `at` on, at most `room`, so that the read ends with
 * a block or with a listed row. If every read of the rows ends like that, no block is
 * read in two states. `room` is at least two blocks, and as many bytes are left.
 */
size_t coxi_dense_whole(const struct coxi_dense *dense,
                        const struct coxi_dense_rows *rows, size_t at, size_t room);

/*
 * Applies values to rows, all of which the shard holds. Cannot fail. A gradient is one
 * step of the variable on this ps, even if the gradient has no row here; its values may
 * be narrow (of type `dtype`). It changes only these rows and their state, with the
 * learning rate of schedule step `step`.
 */
void coxi_dense_update(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                       enum coxi_op op, uint64_t step, uint32_t dtype,
                       const void *values);

/* Applies a gradient. It was multiplied by `loss_scale` (0: by none), and computed from
 * the values `base` (NULL: that does not matter, or they are unknown). */
struct coxi_dense_gradient {
    uint64_t step;
    uint32_t dtype; /* of its values */
    const void *values;
    float loss_scale;
    const float *base;
};

void coxi_dense_push(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                     const struct coxi_dense_gradient *gradient);

/* Counts a gradient that is not applied: later ones have the t that they would have
 * after it. The version stays. */
void coxi_dense_pass(struct coxi_dense *dense);

/* The version: it begins at 2 and rises with every update. Values that are read after
 * this call are at least as new as the version that it returned. */
uint64_t coxi_dense_version(const struct coxi_dense *dense);

/*
 * Sets `count` rows from `begin` on, which the shard holds, to the values of a
 * checkpoint. `states`: their state, and `step` the number of gradients; NULL: both
 * stay. Any thread.
 */
void coxi_dense_load(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     const void *data, const float *const *states, uint64_t step);

/* The number of gradient updates so far; the memory of elements and state. Any
 * thread. */
uint64_t coxi_dense_step(const struct coxi_dense *dense);
size_t coxi_dense_bytes(const struct coxi_dense *dense);

/* Marks the shard as changed, because something other than its values has changed. */
void coxi_dense_touch(struct coxi_dense *dense);

/* ---- tracking, like coxi_table_track_cut, but for the shard as a whole */

void coxi_dense_track_cut(struct coxi_dense *dense, bool drop_before);
bool coxi_dense_track_changed(const struct coxi_dense *dense);

/* ---- cuts: the content of the shard at one moment, read while updates go on */

struct coxi_dense_cut;

/* Makes a cut that has not begun. COX_ENOMEM. */
int coxi_dense_cut_new(struct coxi_dense *dense, struct coxi_dense_cut **ret);
void coxi_dense_cut_free(struct coxi_dense_cut *cut); /* takes NULL */

/* From begin to end the cut holds the shard as it is now. No update may be under way. A
 * shard has one cut at a time, and frees it with itself. */
void coxi_dense_cut_begin(struct coxi_dense_cut *cut);
void coxi_dense_cut_end(struct coxi_dense_cut *cut);

/* coxi_dense_cut_step: the number of gradient updates at the moment of the cut.
 * coxi_dense_cut_saved: the bytes that updates have copied for the cut so far. */
uint64_t coxi_dense_cut_step(const struct coxi_dense_cut *cut);
uint64_t coxi_dense_cut_saved(const struct coxi_dense_cut *cut);

/*
 * A piece of a cut: elements (array 0) or states (array 1 + kind) `first` to `first` +
 * `n`, `bytes` bytes of each, one array after the other. The pieces of an array come in
 * order.
 */
struct coxi_dense_piece {
    size_t first;
    size_t n; /* 0: there are no more pieces */
    size_t bytes;
};

/*
 * Puts the next piece at `room`, which has COXI_DENSE_CUT_ROOM bytes. COX_ENOMEM: an
 * update could not copy what it was about to change, and the rest of the cut cannot be
 * read any more. Any thread, one at a time.
 */
enum { COXI_DENSE_CUT_ROOM = 4 * COXI_DENSE_BLOCK * (1 + COXI_STATES_MAX) };
int coxi_dense_cut_next(struct coxi_dense_cut *cut, void *room,
                        struct coxi_dense_piece *ret);

#endif
