/*
 * Traps for messages that come too late: a request that its sender has repeated by
 * then, a commit of a closure that must not apply any more, a creation for a ps that
 * has begun another incarnation. Takes the place of the trap for messages (traps.h).
 */
#ifndef COXI_SIM_LATE_H
#define COXI_SIM_LATE_H

#include "tests/sim/plan.h"

/* Draws which message will be late. The plan has checkpoints. */
void sim_late_set(const struct sim_plan *plan);

#endif
