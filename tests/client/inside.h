/* What tests of the client look at inside it. (A test program cannot: the step.h that
 * tests/test.h includes has a struct cox_module of its own.) */
#ifndef COXI_TESTS_CLIENT_INSIDE_H
#define COXI_TESTS_CLIENT_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

/* Some thread waits for the future. */
bool inside_is_waited_for(struct cox_future *future);

/* Offers the future of a closure that is not settled a result, on the loop; true if it is
 * copied. */
bool inside_keeps(struct cox_coordinator *c, struct cox_future *future,
                  const void *result, size_t len);

/* How many futures that a closure took it still holds on to. */
size_t inside_inputs(struct cox_coordinator *c, struct cox_future *future);

/* A call of no coordinator, for the log to keep; and letting go of it. NULL: no memory. */
struct cox_future *inside_call(uint64_t id);
void inside_let_go(struct cox_future *call);

/* The incarnations of the ps. */
void inside_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* Loads what the checkpoint `path` has of a variable into ps of those incarnations. */
int inside_load(struct cox_coordinator *c, struct cox_variable *variable,
                const char *path, const uint64_t *incarnations);

#endif
