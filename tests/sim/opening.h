/* Opens the client of a storm. */
#ifndef COXI_SIM_OPENING_H
#define COXI_SIM_OPENING_H

#include "tests/sim/plan.h"

struct cox_coordinator;
struct cox_event;

/* As cox_open, with the plan's options, and the ps and workers where they are now. */
int sim_open(const struct sim_plan *plan,
             void (*on_event)(void *arg, const struct cox_event *event), void *arg,
             struct cox_coordinator **ret);

#endif
