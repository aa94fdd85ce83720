/*
 * The data set of a storm that has one: its program gives tasks out between its calls,
 * and the step of a task adds to places of that task's own. The file is never read: the
 * step takes the task itself (data/task.h) instead of its records.
 */
#ifndef COXI_SIM_TASKS_H
#define COXI_SIM_TASKS_H

#include <stdbool.h>

#include "coxswain/coxswain.h"
#include "tests/sim/plan.h"

struct cox_step;

/* The data set in one client; zeroed: the storm has none. */
struct sim_tasks {
    struct cox_coordinator *c;
    struct cox_dataset *dataset;
    struct cox_function *step;
    struct cox_rounds *rounds;                /* NULL: tasks are given out one by one */
    struct cox_variable *counted[SIM_PS_MAX]; /* "t0" ... */
};

void sim_tasks_begin(const struct sim_plan *plan);

/* Creates variables and data set, and goes on with it. These return the code of a call
 * of the library that went wrong. */
int sim_tasks_create(struct sim_tasks *tasks, struct cox_coordinator *c,
                     struct cox_module *module);

/* Before call `number` is scheduled: gives out a task or a round of them, or none. */
int sim_tasks_give(const struct sim_tasks *tasks, uint32_t number);

/* Gives out the tasks that are left, until all are over. */
int sim_tasks_finish(const struct sim_tasks *tasks);

/* Reads the variables. No part of a task may be applied twice; if all tasks are over,
 * exactly those are incomplete that have failed. */
int sim_tasks_check(const struct sim_tasks *tasks, const char *when);

/* The plan of the task that a step has, and how many closures have failed with it. */
void sim_tasks_look(struct cox_step *step, int64_t ret[SIM_ARGUMENTS],
                    uint32_t *ret_failures);

#endif
