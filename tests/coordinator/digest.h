/* A sum over everything that steps change, to compare runs bit by bit. */
#ifndef COXI_TESTS_COORDINATOR_DIGEST_H
#define COXI_TESTS_COORDINATOR_DIGEST_H

#include <stdint.h>

#include "coxswain/coxswain.h"

/*
 * Saves a checkpoint, and returns a sum over the values of all its variables, their
 * optimizers' state, and the rows of its tables with theirs. It does not depend on how
 * these are spread over ps, nor on the order of rows.
 */
uint64_t digest_of(struct cox_coordinator *c, const char *checkpoint_dir);

#endif
