/*
 * Rows of a variable that a step keeps in its memory from call to call: each row has a
 * place, and at that place the same number of bytes in each of some columns.
 *
 * A store is whole if the first rows that it gets are all rows of a dense variable: then
 * the place of a row is its number. Any other store finds its rows by a table of their
 * keys or numbers, and the places rise in the order in which the rows first came.
 *
 * Threads: a slot. Cost: a few nanoseconds a row; memory doubles as it grows, and stays
 * for the next step.
 */
#ifndef COXI_WORKER_ROW_STORE_H
#define COXI_WORKER_ROW_STORE_H

#include "worker/rows.h"
#include "worker/variables.h"

enum { COXI_ROW_COLUMNS_MAX = 6 };

struct coxi_row_store {
    struct coxi_row_store *next;
    struct cox_variable *variable; /* NULL: the store is not used */
    bool whole;
    size_t n;                 /* rows */
    struct coxi_buffer keys;  /* u64: the row at each place; not if whole */
    struct coxi_buffer slots; /* struct coxi_maybe: where they are found */
    size_t n_slots;
    uint64_t seed;
    uint32_t n_columns;
    size_t widths[COXI_ROW_COLUMNS_MAX]; /* bytes of a row in each column */
    struct coxi_buffer columns[COXI_ROW_COLUMNS_MAX];
};

/* A bound of memory that stores share. */
struct coxi_row_budget {
    size_t bytes;
    size_t bytes_max;
};

/* The places of the rows of a call, and the memory in which they are listed. Zeroed is
 * valid. */
struct coxi_row_places {
    size_t n;
    bool run;     /* consecutive places ... */
    size_t first; /* ... from this one on */
    /* whole: the numbers of the rows, which are their places; NULL: the list says */
    const uint64_t *numbers;
    size_t at; /* the first entry in the list */
};
struct coxi_row_work {
    struct coxi_buffer list;    /* u32 */
    struct coxi_buffer numbers; /* u64: of the rows of a slice */
};

static inline size_t coxi_row_place(const struct coxi_row_places *places,
                                    const struct coxi_row_work *work, size_t i)
{
    if (places->run) {
        return places->first + i;
    }
    return places->numbers != NULL
               ? (size_t)places->numbers[i]
               : ((const uint32_t *)(const void *)work->list.data)[places->at + i];
}

/* What the row at `place` has in a column, and the rows at the places after it. */
static inline void *coxi_row_at(const struct coxi_row_store *store, uint32_t column,
                                size_t place)
{
    return store->columns[column].data + place * store->widths[column];
}

/*
 * Finds rows that coxi_rows_check has accepted; those that are new join, and what they
 * have in the columns is not set. Appends to work->list. COX_ELIMIT: the budget is used
 * up; the text says what to do. COX_ENOMEM. After an error no row of the store may be
 * used.
 */
int coxi_row_store_add(struct coxi_row_store *store, const struct cox_rows *rows,
                       struct coxi_row_budget *budget, struct coxi_row_work *work,
                       struct coxi_row_places *ret);

/* Like coxi_row_store_add, but no row joins. COX_ENOENT: a row is not there; the text
 * names it. COX_ENOMEM. */
int coxi_row_store_find(const struct coxi_row_store *store, const struct cox_rows *rows,
                        struct coxi_row_work *work, struct coxi_row_places *ret);

/* What the rows count in a budget. */
size_t coxi_row_store_bytes(const struct coxi_row_store *store);

/* Adds rows of gradients, F32, to column 0: a row that is new, or listed again, gets the
 * sum. As coxi_row_store_add. */
int coxi_row_store_merge(struct coxi_row_store *store, const struct cox_rows *rows,
                         const float *gradient, struct coxi_row_budget *budget,
                         struct coxi_row_work *work);

/* The rows at the places [begin, begin + n), in the form that takes the fewest bytes;
 * its keys live as long as the store does not change. */
struct cox_rows coxi_row_store_rows(const struct coxi_row_store *store, size_t begin,
                                    size_t n);

/* n listed rows of `v` in the form that takes the fewest bytes: all, a slice, or
 * listed, borrowing `keys`. */
struct cox_rows coxi_rows_shortest(const struct coxi_variable *v, const uint64_t *keys,
                                   size_t n);

/* ---- the stores of a step */

/* In the order in which they were taken; then unused ones. Zeroed is valid and empty. */
struct coxi_row_stores {
    struct coxi_row_store *first;
};

/* The store that is used for a variable, or NULL. */
struct coxi_row_store *coxi_row_stores_find(const struct coxi_row_stores *stores,
                                            const struct cox_variable *variable);

/* A store that is used from now on, empty; `size`: of the struct whose first member it
 * is, the same in all calls. The caller sets the columns. COX_ENOMEM. */
int coxi_row_stores_take(struct coxi_row_stores *stores, size_t size,
                         struct cox_variable *variable, struct coxi_row_store **ret);

/* No store is used any more. Keeps their memory if it is at most `keep` bytes. */
void coxi_row_stores_reset(struct coxi_row_stores *stores, size_t keep);

void coxi_row_store_fini(struct coxi_row_store *store);
void coxi_row_stores_fini(struct coxi_row_stores *stores);

#endif
