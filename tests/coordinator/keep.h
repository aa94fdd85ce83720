/* A crew with the test module "kept", and calls of its steps that keep and take results. */
#ifndef COXI_TESTS_COORDINATOR_KEEP_H
#define COXI_TESTS_COORDINATOR_KEEP_H

#include "tests/coordinator/crew.h"

enum { KEEP_TAKES_MAX = 4 };

/* A call of step `step` (NULL: "sum") with the argument own = `own`. */
struct keep_call {
    const char *step;
    int64_t own;
    const char *fifo; /* the argument of that name; NULL: none */
    uint32_t only_worker;
    bool keep;
    struct cox_future *takes[KEEP_TAKES_MAX]; /* the "x" of each, as "a", "b", ... */
};

/* With a variable c0, which each step that runs adds 1 to. */
struct keep {
    struct crew crew;
    struct cox_variable *counter;
};

void keep_open(struct keep *keep, int n_workers, const struct cox_options *options);
void keep_close(struct keep *keep);

struct cox_future *keep_start(struct keep *keep, const struct keep_call *call);

/* What a closure has returned as `name`, which is done and at the client. */
int64_t keep_value(struct cox_future *future, const char *name);

/* The same, fetched if it has to be; frees the future. */
int64_t keep_fetch(struct cox_future *future, const char *name);

/* Calls it, not kept, and says what it has returned as `name`. */
int64_t keep_run(struct keep *keep, const char *name, const struct keep_call *call);

/* How often steps have counted; how many closures ran again for what they had returned. */
int64_t keep_count(struct keep *keep);
uint64_t keep_made_again(struct keep *keep);

/* Nobody waits at that FIFO any more. */
void keep_open_gate(const char *fifo);

/* SIGTERM to a worker; returns when it has gone. */
void keep_end_worker(struct keep *keep, int worker);

/* kill -9 of the step process of a worker; returns when the client has noticed. */
void keep_kill(struct keep *keep, int worker);

#endif
