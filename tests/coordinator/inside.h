/*
 * What tests of several rooms do inside a client. Most of its state belongs to the loop, so a test
 * looks at that in a turn of the loop: inside_run. Everything else tests take from the headers
 * of coordinator/ themselves.
 */
#ifndef COXI_TESTS_COORDINATOR_INSIDE_H
#define COXI_TESTS_COORDINATOR_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

/* Calls run(arg) in a turn of the client's loop, and waits until it has returned. */
void inside_run(struct cox_coordinator *c, void (*run)(void *arg), void *arg);

/* Some thread waits for the future. */
bool inside_is_waited_for(struct cox_future *future);

/* The incarnations of the ps. */
void inside_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* Breaks the client's connections to a ps, so that the client takes it for lost. */
void inside_cut_off(struct cox_coordinator *c, uint32_t ps);

#endif
