/*
 * Functions with which tests of several rooms work inside a client. Most of its state
 * belongs to the loop, so a test reads that state in a turn of the loop (inside_run).
 * For everything else tests include the headers of coordinator/ themselves.
 */
#ifndef COXI_TESTS_COORDINATOR_INSIDE_H
#define COXI_TESTS_COORDINATOR_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

/* Calls run(arg) in a turn of the client's loop, and waits until it has returned. */
void inside_run(struct cox_coordinator *c, void (*run)(void *arg), void *arg);

/* True if a thread waits for the future. */
bool inside_is_waited_for(struct cox_future *future);

/* Sets *ret to the incarnations of the ps, by index. */
void inside_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* Breaks the client's connections to a ps, so that the client treats it as lost. */
void inside_cut_off(struct cox_coordinator *c, uint32_t ps);

#endif
