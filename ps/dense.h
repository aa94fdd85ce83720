/*
 * The shard of a dense variable that lives on this ps, with its optimizer state. Reads
 * and updates are atomic for each 4 KiB block: a block is never read half-written.
 */
#ifndef COXI_PS_DENSE_H
#define COXI_PS_DENSE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/layout.h"

struct coxi_dense;
struct coxi_memory;

/* A shard filled by the variable's initializer; it counts for `memory` (may be NULL). All
 * are borrowed for its life. COX_ENOMEM. */
int coxi_dense_new(const struct coxi_variable *variable, const struct coxi_shard *shard,
                   struct coxi_memory *memory, struct coxi_dense **ret);
void coxi_dense_free(struct coxi_dense *dense); /* takes NULL */

/* True where `op` can be applied to elements of the variable's type. */
bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op);

/* Copies the bytes [at, at + len) of the shard, which has them; each block of them in one
 * state. */
void coxi_dense_read(struct coxi_dense *dense, size_t at, size_t len, void *ret);

/* Copies `count` rows from row `begin` of the shard, which has them. */
void coxi_dense_pull(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     void *ret);

/* Applies values to `count` rows from row `begin` of the shard; a gradient is one step of
 * the variable here. Cannot fail. */
void coxi_dense_update(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                       enum coxi_op op, const void *values);

/* The shard's elements, and the i-th kind of its state (ps/optimizer.h), as they are: for a
 * snapshot, while nobody updates. */
const void *coxi_dense_data(const struct coxi_dense *dense, size_t *ret_bytes);
const float *coxi_dense_state(const struct coxi_dense *dense, size_t i,
                              size_t *ret_bytes);

/* Updates by gradients so far; memory of elements and state. Any thread. */
uint64_t coxi_dense_step(const struct coxi_dense *dense);
size_t coxi_dense_bytes(const struct coxi_dense *dense);

#endif
