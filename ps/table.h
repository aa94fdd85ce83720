/*
 * This ps's part of a table: rows of `dim` floats and their optimizer state, by 64-bit
 * key, made on first touch.
 *
 * Keys are spread over virtual buckets, each with an index of its own (ps/index.h)
 * under its own lock, so that threads rarely meet. Rows never move: pointers to them
 * stay valid as long as the table. No call does work for rows whose keys were not
 * passed to it, except eviction.
 */
#ifndef COXI_PS_TABLE_H
#define COXI_PS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/optimizer.h"

struct coxi_memory;
struct coxi_table;
struct coxi_row;

/* The life of a row, in tables that evict rows (coxswain.h, struct cox_lifecycle). */
struct coxi_row_life {
    /* the table's step when the row's last gradient came, or when it was made */
    uint64_t last;
    uint64_t made;    /* the table's step when it was made */
    uint32_t updates; /* gradients that it has received; stays at the largest number */
    uint32_t pins;    /* changes that are resolved and not applied yet */
};

/* `variable` is borrowed for the table's life, and so is `memory`, for which its rows
 * count (NULL: they do not count). COX_ENOMEM. */
int coxi_table_new(const struct coxi_variable *variable, struct coxi_memory *memory,
                   struct coxi_table **ret);
void coxi_table_free(struct coxi_table *table); /* takes NULL */

/* Copies the rows of `n` keys to `ret` (n * dim floats, aligned or not); absent rows
 * give their initial values. Any thread. */
void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret);

/* A change to the rows of `n` keys. All memory is borrowed. */
struct coxi_table_change {
    enum coxi_op op;
    uint64_t step; /* a gradient: the step of its schedule */
    /* for admission by chance: the same number each time that the commit's update is
     * repeated */
    uint64_t draw;
    const uint64_t *keys;
    size_t n;
    const float *values;    /* n * dim */
    struct coxi_row **rows; /* room for n: coxi_table_resolve puts the rows here */
    float loss_scale;       /* of gradients; 0: none */
    const float *bases;     /* the values from which they were computed, or NULL */
};

/*
 * Finds or makes the rows of a change; rows that are not admitted stay NULL. All that
 * can fail (COX_ENOMEM, COX_ELIMIT) fails here. If --memory-max is exceeded, no row is
 * made. If the kernel has no memory left, some rows may have been made, with initial
 * values, which nobody can tell from absent ones. After success call one of the next
 * two functions. Any thread.
 */
int coxi_table_resolve(struct coxi_table *table,
                       const struct coxi_table_change *change);

/* Applies the values, in order; gradients are one step of the table here. Then evicts a
 * few rows that are due. Cannot fail. Any thread. */
void coxi_table_update(struct coxi_table *table,
                       const struct coxi_table_change *change);

/* Call instead of coxi_table_update if the change is dropped. Any thread. */
void coxi_table_release(struct coxi_table *table,
                        const struct coxi_table_change *change);

/* Rows of a checkpoint: `n` rows from `first` on, of arrays that hold all rows of a
 * table. */
struct coxi_table_rows {
    const uint64_t *keys;
    const float *values;
    /* in the order of the optimizer's layout; if the first is NULL, the state stays as
     * it is */
    const float *states[COXI_STATES_MAX];
    const uint64_t *last; /* the lives of rows; NULL: they stay */
    const uint64_t *made;
    const uint64_t *updates;
    uint64_t later; /* how many steps this table is ahead of the arrays */
    uint64_t first;
    size_t n;
};

/* Drops the rows of n keys that exist. Nobody else may use the table meanwhile. */
void coxi_table_drop(struct coxi_table *table, const uint64_t *keys, size_t n);

/* Call this before `n` rows are loaded into an empty table: makes its index large
 * enough for them, as far as there is memory; loading grows the index further. Nobody
 * else may use the table meanwhile. */
void coxi_table_expect(struct coxi_table *table, uint64_t n);

/*
 * coxi_table_load sets rows to these contents. It makes absent rows even if their keys
 * are not admitted, and evicts nothing. COX_ENOMEM, COX_ELIMIT: some rows were set. If
 * rows have a life, first call coxi_table_raise_step with the number of gradients,
 * because rows count their age from it; a lower number is ignored. Any thread.
 */
int coxi_table_load(struct coxi_table *table, const struct coxi_table_rows *rows);
void coxi_table_raise_step(struct coxi_table *table, uint64_t step);

/* Evicts some of the rows that are due, as an update of `n` rows does. Any thread. */
void coxi_table_tidy(struct coxi_table *table, size_t n);

/* The number of rows; the number of gradient updates so far; the table's memory in
 * bytes, including that of evicted rows, which later rows reuse. Any thread. */
uint64_t coxi_table_rows(struct coxi_table *table);
uint64_t coxi_table_step(struct coxi_table *table);
uint64_t coxi_table_bytes(struct coxi_table *table);
void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret);

/* The version: it begins at COXI_VERSION_FIRST and rises with every update of any of
 * its rows. Values that are read after this call are at least as new as the version
 * that it returned. */
uint64_t coxi_table_version(const struct coxi_table *table);

/* True if its rows have a life. */
bool coxi_table_ages(const struct coxi_table *table);

/* ---- tracking of changes */

struct coxi_table_track;

/* Notes changes from here on. No change may be under way. COX_ENOMEM. */
int coxi_table_track(struct coxi_table *table);

/* Ends the span that began with the last call. A snapshot that is cut now must hold the
 * changes of that span and, unless `drop_before`, those of earlier spans that were not
 * dropped. No change may be under way, and no cut may be read. */
void coxi_table_track_cut(struct coxi_table_track *track, bool drop_before);

/* False: some changes were lost, so only a snapshot of everything will do. */
bool coxi_table_track_whole(const struct coxi_table_track *track);

/* Keys of the rows that were dropped since the snapshot's base. A key may have a row
 * again, and may be listed twice. */
const uint64_t *coxi_table_track_removed(const struct coxi_table_track *track,
                                         size_t *ret_n);

struct coxi_table_track *
coxi_table_tracked(const struct coxi_table *table); /* or NULL */

/* ---- cuts: the content of a table at one moment, read while changes go on */

struct coxi_table_cut;

/* Makes a cut that has not begun. COX_ENOMEM. */
int coxi_table_cut_new(struct coxi_table *table, struct coxi_table_cut **ret);
void coxi_table_cut_free(struct coxi_table_cut *cut); /* takes NULL */

/*
 * From begin to end the cut holds the rows as they are now: all, or (`changed`) those
 * that changed, as the last coxi_table_track_cut says. No change may be under way. A
 * table has one cut at a time, and frees it with itself.
 */
void coxi_table_cut_begin(struct coxi_table_cut *cut, bool changed);
void coxi_table_cut_end(struct coxi_table_cut *cut);

/* The number of rows, and of gradient updates, at the moment of the cut; the bytes of
 * copies that changes have made for the cut so far (whole blocks). */
uint64_t coxi_table_cut_rows(const struct coxi_table_cut *cut);
uint64_t coxi_table_cut_step(const struct coxi_table_cut *cut);
uint64_t coxi_table_cut_saved(struct coxi_table_cut *cut);

/* The form in which a cut's rows are handed out: `stride` bytes each, which begin with
 * the key (u64). */
struct coxi_cut_layout {
    size_t stride;
    size_t values; /* offset of the values in a row */
    /* offset of the optimizer's state, in the order of coxi_optimizer_row */
    size_t state;
    size_t life;   /* offset of struct coxi_row_life; 0: rows have none */
    size_t n_most; /* the most rows at a time */
};
struct coxi_cut_layout coxi_table_cut_layout(const struct coxi_table_cut *cut);

/*
 * Puts the next *ret_n rows (at most n_most, possibly none), in any order, at `room`
 * (8-aligned). 1: there may be more; 0: there are no more. COX_ENOMEM: a change could
 * not copy what it was about to change, and the rest of the cut cannot be read any
 * more. Any thread, one at a time.
 */
int coxi_table_cut_next(struct coxi_table_cut *cut, void *room, size_t *ret_n);

#endif
