/*
 * Which ps gets which rows of a dense variable: how many shards it is cut in, and where
 * they go. Pure functions.
 */
#ifndef COXI_COORDINATOR_VARIABLES_PARTITION_H
#define COXI_COORDINATOR_VARIABLES_PARTITION_H

#include "coxswain/coxswain.h"
#include "schema/wire.h"

/*
 * How many shards struct cox_variable_spec asks for, of a variable with rows (see there).
 * COX_EINVAL: none can be as small as shard_max_bytes, or there are not enough ps for it.
 */
int coxi_partition_count(const struct cox_variable_spec *spec,
                         const struct coxi_variable *variable, uint32_t n_ps,
                         uint32_t *ret);

/* Sets `ps` of n shards, n at most n_ps: those with the least load, which is in bytes; of
 * equal ones the first. */
void coxi_partition_place(const uint64_t *load, uint32_t n_ps, uint32_t n,
                          struct coxi_shard *ret);

/* The load that shard `i` of a variable is, or a number for comparison. */
uint64_t coxi_partition_load(const struct coxi_variable *variable, size_t i);

#endif
