/*
 * Where a closure of deterministic rounds stands in its run: what its step needs to do
 * the same in every run, although ids of runs and closures differ. It travels as the
 * closure's first argument, and so in replay logs and backlogs; steps do not see it.
 *
 * Any thread.
 */
#ifndef COXI_COMMON_RUN_PLACE_H
#define COXI_COMMON_RUN_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coxswain/types.h"

/* The argument: I64 [2]. Programs may not use names that begin with \1. */
#define COXI_RUN_PLACE_ARGUMENT "\1place"

struct coxi_run_place {
    uint64_t seed; /* of its step (cox_step_seed) */
    uint64_t step; /* of learning rate schedules */
};

/* The argument that tells `place`, which it borrows. */
struct cox_value coxi_run_place_value(const struct coxi_run_place *place);

/* Reads the place from packed arguments (common/dtype.h); false: the first of them is no
 * place. Cost: a comparison of 32 bytes. */
bool coxi_run_place_read(const void *args, size_t len, struct coxi_run_place *ret);

/* Replaces the place in packed arguments, the first of which must be one. */
void coxi_run_place_write(void *args, const struct coxi_run_place *place);

#endif
