/* A crew with the test module "resource", and calls of its steps. */
#ifndef COXI_TESTS_COORDINATOR_KEEPER_H
#define COXI_TESTS_COORDINATOR_KEEPER_H

#include "tests/coordinator/crew.h"

/* The arguments of a call, and where it may run. */
struct keeper_ask {
    const char *name;   /* argument `name`; NULL: none */
    const char *path;   /* argument `path`; NULL: none */
    const char *number; /* name of the argument `n`; NULL: none */
    int64_t n;
    uint32_t only_worker;
    int timeout_ms;
};

/* Makes the call; `args` has its arguments. */
struct cox_call keeper_call(const struct keeper_ask *ask, struct cox_value args[3]);

/* Calls `check` with the defaults, and with a queue of two, because everything must
 * hold also if scheduling always has to wait for room. */
void keeper_check(void (*check)(const struct cox_options *options));

/* Opens with one ps. */
void keeper_open(struct crew *crew, int n_workers, const struct cox_options *options);

/* Creates resource `name`, which `function` makes; _plain: a resource that counts from
 * 0. */
struct cox_resource *keeper_create(struct crew *crew, const char *name,
                                   const char *function, const struct keeper_ask *ask);
struct cox_resource *keeper_create_plain(struct crew *crew, const char *name);

struct cox_future *keeper_start(struct crew *crew, const char *step,
                                const struct keeper_ask *ask);

/* Waits for the step, and frees the future. Returns the step's result `name`. */
int64_t keeper_result(struct cox_future *future, const char *name);

/* Starts a step and waits for its result. */
int64_t keeper_run(struct crew *crew, const char *step, const char *result,
                   const struct keeper_ask *ask);

/* The count of resource `name` on worker `index`; the number of things that are kept
 * there. */
int64_t keeper_peek(struct crew *crew, const char *name, uint32_t index);
int64_t keeper_count_alive(struct crew *crew, uint32_t index);

/* Asserts that `step` fails on worker `index` with COX_ERESOURCE, and that the error's
 * text names the resource, the worker and the reason. */
void keeper_assert_unmade(struct crew *crew, const char *step, const char *name,
                          uint32_t index, const char *reason);

/* The path of a new FIFO, at which a resource can wait. */
const char *keeper_fifo(void);

#endif
