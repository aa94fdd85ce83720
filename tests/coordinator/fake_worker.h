/* Workers that dial a yard's client and do what the test says. */
#ifndef COXI_TESTS_COORDINATOR_FAKE_WORKER_H
#define COXI_TESTS_COORDINATOR_FAKE_WORKER_H

#include "tests/coordinator/yard.h"
#include "tests/ps/caller.h"

/* How a process (`incarnation`) greets that is worker `name`. */
struct coxi_hello fake_worker_hello(const char *name, uint64_t incarnation);

/* Dials as one; asserts that the client greets, and tells it that it is worker `index`, and
 * of the module. */
struct caller *fake_worker(struct yard *yard, const char *name, uint64_t incarnation,
                           uint32_t index);

/* It has loaded the module of that id. */
void fake_worker_accept(struct caller *caller, uint32_t module);

/* The next message brings closures: how many, and which. */
size_t fake_worker_expect(struct caller *caller, struct coxi_closure_head *ret);

/* It has run one, with this end. */
void fake_worker_answer(struct caller *caller, const struct coxi_closure_head *head,
                        int code);

#endif
