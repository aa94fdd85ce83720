/* A local cluster for tests, opened and closed in one line each, and helpers for it. */
#ifndef COXI_TESTS_COORDINATOR_CREW_H
#define COXI_TESTS_COORDINATOR_CREW_H

#include <stdbool.h>
#include <sys/types.h>

#include "coxswain/coxswain.h"

struct crew {
    struct cox_coordinator *c;
    struct cox_module *module;
    char log_dir[256];
};

/* Opens a local cluster (options NULL: defaults) with the test module `module`; all its
 * workers are ready when this returns. */
void crew_open(struct crew *crew, int n_ps, int n_workers, const char *module,
               const struct cox_options *options);

/* Asserts that cox_open fails with `code`, and that the error names `named`. */
void crew_refused(const struct cox_cluster *cluster, const struct cox_options *options,
                  int code, const char *named);

/* Closes without a join, and asserts that no process is left. */
void crew_close(struct crew *crew);

struct cox_function *crew_function(struct crew *crew, const char *name);

/* A variable of one I64, which is 0 at first. */
struct cox_variable *crew_counter(struct crew *crew, const char *name);
int64_t crew_read(struct crew *crew, struct cox_variable *counter);

/* Schedules `n` calls of `function` with the scalar argument n = `value`. */
void crew_schedule(struct crew *crew, struct cox_function *function, int n,
                   int64_t value);

/* The step process of worker `index`, and its supervisor; waits until there is one. */
pid_t crew_step_process(struct crew *crew, int index);
pid_t crew_supervisor(struct crew *crew, int index);

/* The process of ps `index`. */
pid_t crew_ps_process(struct crew *crew, int index);

/* The launcher, which restarts ps and workers. */
pid_t crew_launcher(struct crew *crew);

/* The path of the socket of ps or worker `index`. */
void crew_socket(struct crew *crew, const char *role, int index, char ret[256]);

/* Waits until a process is gone, whether or not it was reaped. */
void crew_wait_gone(pid_t pid);

/* Kills with kill -9. */
void crew_kill(pid_t pid);

/* Stops with SIGSTOP; no thread of the process runs any more when this returns. */
void crew_stop(pid_t pid);

/* A step of module hold that runs until it is released. crew_hold schedules it; it runs
 * when crew_hold_wait has returned. */
struct crew_hold {
    const char *path;
    int fd;
    struct cox_future *future; /* NULL if it was scheduled without `future` */
};

void crew_hold(struct crew_hold *hold, struct crew *crew, const char *step,
               bool future);

/* The step runs only on worker `only` - 1; `only` 0: on any worker. */
void crew_hold_on(struct crew_hold *hold, struct crew *crew, const char *step,
                  uint32_t only, bool future);

/* Schedules the step with the fields of `call`, except its arguments. */
void crew_hold_call(struct crew_hold *hold, struct crew *crew, const char *step,
                    const struct cox_call *call, bool future);
void crew_hold_wait(struct crew_hold *hold);
void crew_hold_release(struct crew_hold *hold);

/* Releases the step; its later attempts are not held either. */
void crew_hold_end(struct crew_hold *hold);

#endif
