/* A worker as its two processes, which may die; and the messages between a client and
 * its step process (with the module "crash"). */
#ifndef COXI_TESTS_WORKER_PROCESS_H
#define COXI_TESTS_WORKER_PROCESS_H

#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

struct worker {
    struct program program; /* the supervisor */
    int n_listening;        /* step processes that have listened so far */
    pid_t step_process;
    char address[300];
};

/* Opens with one or two options, or NULL. */
void worker_open(struct worker *worker, const char *first, const char *second);

/* Asserts that the worker has survived, closes it, and asserts that nothing is left of
 * it. */
void worker_close(struct worker *worker);

/* Waits for a step process other than the ones before. */
void worker_await(struct worker *worker);

/* The client for which the functions below act. */
extern const struct coxi_session worker_client;

/* A client that has greeted and has not read the messages that followed; _ready: one
 * that may dispatch. */
struct caller *worker_join(struct worker *worker, const struct coxi_session *session);
struct caller *worker_join_ready(struct worker *worker);
void worker_send_module(struct caller *caller);

struct worker_call {
    uint64_t closure;
    uint32_t attempt;
    const char *step;
    const struct cox_value *arg; /* or NULL */
    uint32_t timeout_ms;
    uint32_t grace_ms;
};
void worker_dispatch(struct caller *caller, const struct worker_call *call);

/* Dispatches a step that waits at the FIFO `path`; it waits there when this returns.
 * Returns the descriptor to release so that it goes on. */
int worker_dispatch_to_gate(struct caller *caller, const struct worker_call *call,
                            const char *path);

/* Asserts that the next results are of this closure alone. */
void worker_expect_done(struct caller *caller, uint64_t closure, int code);

/* Asserts that the process to which the client spoke ends, and that another one
 * comes. */
void worker_expect_crash(struct worker *worker, struct caller *caller);

/* Asserts that a client that connects again is told of one crashed closure, before
 * anything else. */
void worker_expect_report(struct worker *worker, uint64_t closure, uint32_t attempt,
                          int cause);
void worker_assert_crashed(const struct coxi_crashed_head *head, uint64_t closure,
                           uint32_t attempt, int cause);

/* Asserts that a client that connects again is told of no crash, and is served. */
void worker_expect_no_report(struct worker *worker);

#endif
