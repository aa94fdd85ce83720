/* A crew with the test module "kept", and calls of its steps, which keep and take
 * results. */
#ifndef COXI_TESTS_COORDINATOR_KEEP_H
#define COXI_TESTS_COORDINATOR_KEEP_H

#include "tests/coordinator/crew.h"

enum { KEEP_TAKES_MAX = 4 };

/* A call of step `step` (NULL: "sum") with the argument own = `own`. */
struct keep_call {
    const char *step;
    int64_t own;
    const char *fifo; /* the argument `fifo`; NULL: none */
    uint32_t only_worker;
    bool keep;
    /* the call takes result "x" of each of these, as its inputs "a", "b", ... */
    struct cox_future *takes[KEEP_TAKES_MAX];
};

/* The crew, and a variable c0 to which each step that runs adds 1. */
struct keep {
    struct crew crew;
    struct cox_variable *counter;
};

void keep_open(struct keep *keep, int n_workers, const struct cox_options *options);
void keep_close(struct keep *keep);

struct cox_future *keep_start(struct keep *keep, const struct keep_call *call);

/* The result `name` of a closure that is done; the client has it. */
int64_t keep_value(struct cox_future *future, const char *name);

/* As keep_value, but first fetches the result if necessary; frees the future. */
int64_t keep_fetch(struct cox_future *future, const char *name);

/* Calls a step without keep and returns its result `name`. */
int64_t keep_run(struct keep *keep, const char *name, const struct keep_call *call);

/* How often steps have counted; how many closures ran again because their results were
 * lost. */
int64_t keep_count(struct keep *keep);
uint64_t keep_made_again(struct keep *keep);

/* Replaces the FIFO by an empty file, so that no later attempt waits there. */
void keep_open_gate(const char *fifo);

/* Sends SIGTERM to a worker; returns when the worker is gone. */
void keep_end_worker(struct keep *keep, int worker);

/* Kills with kill -9 the step process of a worker; returns when the client has
 * noticed. */
void keep_kill(struct keep *keep, int worker);

#endif
