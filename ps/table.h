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

#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

struct coxi_table;
struct coxi_row;

/* `variable` is borrowed for the table's life. */
int coxi_table_new(const struct coxi_variable *variable, struct coxi_table **ret);
void coxi_table_free(struct coxi_table *table); /* takes NULL */

/* Copies the rows of `n` keys to `ret` (n * dim floats, aligned or not); absent:
 * initial values. Any thread. */
void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret);

/*
 * Finds or makes the rows of `n` keys for an update by `op`. What fails (COX_ENOMEM,
 * COX_ELIMIT) fails here, and may leave rows made with their initial values, which nobody
 * can tell from absent ones. Any thread.
 */
int coxi_table_resolve(struct coxi_table *table, enum coxi_op op, const uint64_t *keys,
                       size_t n, struct coxi_row **ret);

/* Applies values (n * dim floats) to the rows that coxi_table_resolve found for the same
 * keys and op, in order; gradients are one step of the variable here. Cannot fail. Any
 * thread. */
void coxi_table_update(struct coxi_table *table, enum coxi_op op, const uint64_t *keys,
                       struct coxi_row *const *rows, size_t n, const float *values);

/* Rows there are; updates by gradients so far; memory it takes. Any thread. */
uint64_t coxi_table_rows(struct coxi_table *table);
uint64_t coxi_table_step(struct coxi_table *table);
uint64_t coxi_table_bytes(struct coxi_table *table);
void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret);

/* Calls `visit` for every row, in an order that is the same each time while no row is
 * made. `state` is that of the row, as coxi_optimizer_row has it. The caller keeps updates
 * off meanwhile; pulls need not wait. */
typedef int (*coxi_row_visit)(void *arg, uint64_t key, const float *values,
                              const float *state);
int coxi_table_each(struct coxi_table *table, coxi_row_visit visit, void *arg);

#endif
