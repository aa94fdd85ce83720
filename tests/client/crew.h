/* A local cluster for tests, opened and closed in one line each, with what tests ask of
 * it. */
#ifndef COXI_TESTS_CLIENT_CREW_H
#define COXI_TESTS_CLIENT_CREW_H

#include <sys/types.h>

#include "coxswain/coxswain.h"

struct crew {
    struct cox_coordinator *c;
    struct cox_module *module;
    char log_dir[256];
};

/* Opens a local cluster (options NULL: defaults) with the test module `module`. */
void crew_open(struct crew *crew, int n_ps, int n_workers, const char *module,
               const struct cox_options *options);

/* Joins nothing, closes, and asserts that no process of it is left. */
void crew_close(struct crew *crew);

struct cox_function *crew_function(struct crew *crew, const char *name);

/* A variable of one i64, 0 at first. */
struct cox_variable *crew_counter(struct crew *crew, const char *name);
int64_t crew_read(struct crew *crew, struct cox_variable *counter);

/* Schedules `n` calls of `function` with the scalar argument n = `value`. */
void crew_schedule(struct crew *crew, struct cox_function *function, int n,
                   int64_t value);

/* The process that runs the steps of worker `index`, and its supervisor; waits for it.
 */
pid_t crew_step_process(struct crew *crew, int index);
pid_t crew_supervisor(struct crew *crew, int index);

/* The process of ps `index`. */
pid_t crew_ps_process(struct crew *crew, int index);

/* Waits until a process is gone. */
void crew_wait_gone(pid_t pid);

#endif
