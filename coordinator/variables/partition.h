/* Partitions the rows of a dense variable: how many shards it has, and on which ps they
 * are. Pure functions. */
#ifndef COXI_COORDINATOR_VARIABLES_PARTITION_H
#define COXI_COORDINATOR_VARIABLES_PARTITION_H

#include "coxswain/coxswain.h"
#include "schema/wire.h"

/*
 * The number of shards that struct cox_variable_spec asks for; the variable must have
 * rows (see there). COX_EINVAL: no shard can be as small as shard_max_bytes, or there
 * are not enough ps for that.
 */
int coxi_partition_count(const struct cox_variable_spec *spec,
                         const struct coxi_variable *variable, uint32_t n_ps,
                         uint32_t *ret);

/* Chooses `ps` of n shards, n at most n_ps: the ps with the least load in bytes; among
 * equal ones the first. */
void coxi_partition_place(const uint64_t *load, uint32_t n_ps, uint32_t n,
                          struct coxi_shard *ret);

/* The load of shard `i` of a variable: a number for comparison. */
uint64_t coxi_partition_load(const struct coxi_variable *variable, size_t i);

#endif
