/*
 * A worker as its two processes, which may die; and what a client says to the one that
 * runs steps (of the module "crash") and hears from it.
 */
#ifndef COXI_TESTS_WORKER_PROCESS_H
#define COXI_TESTS_WORKER_PROCESS_H

#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

struct worker {
    struct program program; /* the supervisor */
    int n_listening;        /* step processes that have come so far */
    pid_t step_process;
    char address[300];
};

/* With one or two options, or NULL. */
void worker_open(struct worker *worker, const char *first, const char *second);

/* It has survived; and nothing is left of it. */
void worker_close(struct worker *worker);

/* Waits for another step process than those before. */
void worker_await(struct worker *worker);

/* The client that the functions below speak for. */
extern const struct coxi_session worker_client;

/* A client that has greeted, and has not asked what came then; one that may dispatch. */
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

/* A step that waits at the FIFO `path`; when this returns, it does. What to release once
 * it may go on. */
int worker_dispatch_to_gate(struct caller *caller, const struct worker_call *call,
                            const char *path);

/* The next results are that of one closure, alone. */
void worker_expect_done(struct caller *caller, uint64_t closure, int code);

/* The process that the client spoke to goes, and another comes. */
void worker_expect_crash(struct worker *worker, struct caller *caller);

/* A client that is there again hears of one closure, first of all. */
void worker_expect_report(struct worker *worker, uint64_t closure, uint32_t attempt,
                          int cause);
void worker_assert_crashed(const struct coxi_crashed_head *head, uint64_t closure,
                           uint32_t attempt, int cause);

/* It hears nothing but the answers to what it asks; it is served. */
void worker_expect_no_report(struct worker *worker);

#endif
