/* A ps, a client that listens, and workers that dial it: for tests of workers that join
 * and leave. */
#ifndef COXI_TESTS_COORDINATOR_YARD_H
#define COXI_TESTS_COORDINATOR_YARD_H

#include "tests/coordinator/crew.h"
#include "tests/program.h"

struct yard {
    struct program ps;
    char ps_address[256];
    struct cox_cluster *cluster; /* lists the ps, but no worker */
    char listen[300];            /* the client's address; by default ipc */
    struct crew crew;            /* without logs; module hold, variable c0 */
    struct cox_variable *counter;
};

/* Opens the ps and a client (options NULL: defaults). */
void yard_open(struct yard *yard, const struct cox_options *options);
void yard_close(struct yard *yard);

/* Closes only the client, and opens it again. */
void yard_close_client(struct yard *yard);
void yard_open_client(struct yard *yard, const struct cox_options *options);

/* Starts a worker that dials as `name` (NULL: by default). */
void yard_worker(const struct yard *yard, struct program *worker, const char *name);

/* Kills a worker with kill -9. */
void yard_kill(struct program *worker);

/* The worker's step process. If `before` is not 0, waits until there is another one. */
pid_t yard_step_process(const struct program *worker, pid_t before);

/* Waits until n workers take closures; until n workers were lost. */
void yard_wait_ready(struct yard *yard, uint64_t n);
void yard_wait_lost(struct yard *yard, uint64_t n);

/* All statistics except those of the ps. */
struct cox_stats yard_stats(struct yard *yard);

/* Runs a closure, and returns the index of its worker. `only`: 1 + the index of the
 * only worker that may run it; 0: any may. */
int64_t yard_where(struct yard *yard, uint32_t only);

/* Schedules `n` closures that add 1 to c0. */
void yard_count(struct yard *yard, int n);

#endif
