/*
 * A table: rows of `dim` floats and their optimizer state by 64-bit key, made on first
 * touch. The part of it that lives on this ps.
 *
 * Keys are spread over virtual buckets, each with an index of its own (ps/index.h) under
 * its own lock, so that threads rarely meet. Rows never move: pointers to them stay valid
 * as long as the table. No call does work for rows other than those it names.
 */
#ifndef COXI_PS_TABLE_H
#define COXI_PS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "ps/optimizer.h"

struct coxi_memory;
struct coxi_table;
struct coxi_row;

/* What a row has where rows go again (coxswain.h, struct cox_lifecycle). */
struct coxi_row_life {
    uint64_t last;    /* the table's step when a gradient came last, or it was made */
    uint64_t made;    /* the table's step when it was made */
    uint32_t updates; /* gradients that have come to it; stays at its largest number */
    uint32_t pins;    /* changes that are resolved and not updated */
};

/*
 * `variable` is borrowed for the table's life, and so is `memory`, which its rows count
 * for (may be NULL: they are not counted). COX_ENOMEM.
 */
int coxi_table_new(const struct coxi_variable *variable, struct coxi_memory *memory,
                   struct coxi_table **ret);
void coxi_table_free(struct coxi_table *table); /* takes NULL */

/* Copies the rows of `n` keys to `ret` (n * dim floats, aligned or not); absent:
 * initial values. Any thread. */
void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret);

/* A change to the rows of `n` keys. All is borrowed. */
struct coxi_table_change {
    enum coxi_op op;
    uint64_t step; /* of its schedule, where it is a gradient */
    uint64_t
        draw; /* the same for the same part of the same commit: admission by chance */
    const uint64_t *keys;
    size_t n;
    const float *values;    /* n * dim */
    struct coxi_row **rows; /* room for n: where coxi_table_resolve puts them */
    float loss_scale;       /* of gradients; 0: none */
};

/*
 * Finds or makes the rows of a change; those not admitted stay NULL. What fails
 * (COX_ENOMEM, COX_ELIMIT) fails here. Where --memory-max is in the way no row is made;
 * where the kernel has no memory left, there may be rows that nobody can tell from absent
 * ones. What succeeds is followed by one of the next two. Any thread.
 */
int coxi_table_resolve(struct coxi_table *table,
                       const struct coxi_table_change *change);

/* Applies the values, in order; gradients are one step of the variable here. Drops rows
 * that are to go, a few at a time. Cannot fail. Any thread. */
void coxi_table_update(struct coxi_table *table,
                       const struct coxi_table_change *change);

/* Instead of an update: the change is not to be. Any thread. */
void coxi_table_release(struct coxi_table *table,
                        const struct coxi_table_change *change);

/* Rows as a checkpoint has them: those from `first` on of arrays for all of a table. */
struct coxi_table_rows {
    const uint64_t *keys;
    const float *values;
    /* As the layout of its optimizer has them; the first is NULL: state stays. */
    const float *states[COXI_STATES_MAX];
    const uint64_t *last; /* where rows have a life; NULL: it stays */
    const uint64_t *made;
    const uint64_t *updates;
    uint64_t later; /* how many steps later than in the arrays that was here */
    uint64_t first;
    size_t n;
};

/* Drops the rows of n keys, where they are there; while nobody else does anything. */
void coxi_table_drop(struct coxi_table *table, const uint64_t *keys, size_t n);

/* So many rows will be loaded: makes the index of a table that has none as large as it will
 * have to be. What there is no memory for comes row by row. While nobody else does
 * anything. */
void coxi_table_expect(struct coxi_table *table, uint64_t n);

/*
 * Makes those rows, or makes them that, whatever is admitted otherwise; no row goes.
 * COX_ENOMEM, COX_ELIMIT: some of them. Before rows that have a life: the number of
 * gradients, by which they count their age; it is raised, never lowered. Any thread.
 */
int coxi_table_load(struct coxi_table *table, const struct coxi_table_rows *rows);
void coxi_table_raise_step(struct coxi_table *table, uint64_t step);

/* Drops some of the rows that are to go, as an update of `n` rows does. Any thread. */
void coxi_table_tidy(struct coxi_table *table, size_t n);

/* Rows there are; updates by gradients so far; memory it takes, with that of rows which
 * went and will come again. Any thread. */
uint64_t coxi_table_rows(struct coxi_table *table);
uint64_t coxi_table_step(struct coxi_table *table);
uint64_t coxi_table_bytes(struct coxi_table *table);
void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret);

/* True where its rows have a life. */
bool coxi_table_ages(const struct coxi_table *table);

/* ---- what changes */

struct coxi_table_track;

/* From here on it is noted. While no change is under way. COX_ENOMEM. */
int coxi_table_track(struct coxi_table *table);

/*
 * Ends the span that began with the last call: what a snapshot that is cut now has to hold
 * is what changed in it, and (unless drop_before) in the ones before it that were not
 * dropped. While no change is under way, and no cut is read.
 */
void coxi_table_track_cut(struct coxi_table_track *track, bool drop_before);

/* False: something of it has been lost, and only a snapshot of all will do. */
bool coxi_table_track_whole(const struct coxi_table_track *track);

/* Keys of the rows that went in it; some may be there again, some twice. */
const uint64_t *coxi_table_track_removed(const struct coxi_table_track *track,
                                         size_t *ret_n);

struct coxi_table_track *
coxi_table_tracked(const struct coxi_table *table); /* or NULL */

/* ---- cuts: what a table holds at one moment, read while changes go on */

struct coxi_table_cut;

/* Makes one, which is not begun. COX_ENOMEM. */
int coxi_table_cut_new(struct coxi_table *table, struct coxi_table_cut **ret);
void coxi_table_cut_free(struct coxi_table_cut *cut); /* takes NULL */

/* From here on it holds the rows as they are now, to the end, or (`changed`) those that the
 * last coxi_table_track_cut has told. While no change is under way; a table has one at a
 * time, and frees it with itself. */
void coxi_table_cut_begin(struct coxi_table_cut *cut, bool changed);
void coxi_table_cut_end(struct coxi_table_cut *cut);

/* Rows and updates by gradients, of that moment; bytes of the rows that changes have copied
 * for it so far, with what such copies leave unused. */
uint64_t coxi_table_cut_rows(const struct coxi_table_cut *cut);
uint64_t coxi_table_cut_step(const struct coxi_table_cut *cut);
uint64_t coxi_table_cut_saved(struct coxi_table_cut *cut);

/* How its rows are handed out: `stride` bytes each, which begin with the key (u64). */
struct coxi_cut_layout {
    size_t stride;
    size_t values; /* where in a row these begin */
    size_t state;  /* of the optimizer, as coxi_optimizer_row has it */
    size_t life;   /* struct coxi_row_life; 0: rows have none */
    size_t n_most; /* rows at a time */
};
struct coxi_cut_layout coxi_table_cut_layout(const struct coxi_table_cut *cut);

/*
 * Puts the next *ret_n rows (n_most at most, may be none), in any order, at `room`
 * (8-aligned). 1: there may be more; 0: those were all. COX_ENOMEM: a change could not copy
 * what it was about to change; the rest cannot be read any more. Any thread, one at a time.
 */
int coxi_table_cut_next(struct coxi_table_cut *cut, void *room, size_t *ret_n);

#endif
