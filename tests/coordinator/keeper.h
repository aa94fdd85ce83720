/* A crew with the test module "resource", and what tests ask its steps. */
#ifndef COXI_TESTS_COORDINATOR_KEEPER_H
#define COXI_TESTS_COORDINATOR_KEEPER_H

#include "tests/coordinator/crew.h"

/* The arguments of a call, and where it may run. */
struct keeper_ask {
    const char *name;   /* argument `name`; NULL: none */
    const char *path;   /* argument `path`; NULL: none */
    const char *number; /* what the argument `n` is called; NULL: none */
    int64_t n;
    uint32_t only_worker;
    int timeout_ms;
};

/* The call, in `args`. */
struct cox_call keeper_call(const struct keeper_ask *ask, struct cox_value args[3]);

/* Calls `check` with the defaults, and with a queue of two: everything holds also where
 * scheduling has to wait for room all the time. */
void keeper_check(void (*check)(const struct cox_options *options));

/* With one ps. */
void keeper_open(struct crew *crew, int n_workers, const struct cox_options *options);

/* Resource `name`, made by `function`; one that counts from 0. */
struct cox_resource *keeper_create(struct crew *crew, const char *name,
                                   const char *function, const struct keeper_ask *ask);
struct cox_resource *keeper_create_plain(struct crew *crew, const char *name);

struct cox_future *keeper_start(struct crew *crew, const char *step,
                                const struct keeper_ask *ask);

/* Waits for the number that it returns as `name`, and frees the future. */
int64_t keeper_result(struct cox_future *future, const char *name);

/* Both in one. */
int64_t keeper_run(struct crew *crew, const char *step, const char *result,
                   const struct keeper_ask *ask);

/* What resource `name` has counted on worker `index`; how many things are kept there. */
int64_t keeper_peek(struct crew *crew, const char *name, uint32_t index);
int64_t keeper_count_alive(struct crew *crew, uint32_t index);

/* `step` fails there with COX_ERESOURCE, and its text has all that it should. */
void keeper_assert_unmade(struct crew *crew, const char *step, const char *name,
                          uint32_t index, const char *reason);

/* A new FIFO's path, for a resource to wait at. */
const char *keeper_fifo(void);

#endif
