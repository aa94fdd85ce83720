/* Fake workers that dial a yard's client and do what the test says. */
#ifndef COXI_TESTS_COORDINATOR_FAKE_WORKER_H
#define COXI_TESTS_COORDINATOR_FAKE_WORKER_H

#include "tests/coordinator/yard.h"
#include "tests/ps/caller.h"

/* The greeting of process `incarnation` of worker `name`. */
struct coxi_hello fake_worker_hello(const char *name, uint64_t incarnation);

/* Dials as a worker. Asserts that the client greets and then sends the worker's index
 * and the module. */
struct caller *fake_worker(struct yard *yard, const char *name, uint64_t incarnation,
                           uint32_t index);

/* Reports that it has loaded that module. */
void fake_worker_accept(struct caller *caller, uint32_t module);

/* Expects a message with closures; returns how many, and copies them. */
size_t fake_worker_expect(struct caller *caller, struct coxi_closure_head *ret);

/* Reports the end of a closure, with this code. */
void fake_worker_answer(struct caller *caller, const struct coxi_closure_head *head,
                        int code);

/* The same for up to 16 closures, in one message. */
void fake_worker_answers(struct caller *caller, const struct coxi_closure_head *heads,
                         size_t n, int code);

#endif
