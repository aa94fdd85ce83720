/* Allocations that fail, one by one: the nth of a scenario, for n = 1, 2, ... until a
 * run has none that fails. */
#ifndef COXI_TESTS_TORTURE_TORTURE_H
#define COXI_TESTS_TORTURE_TORTURE_H

#include <stddef.h>

/* Plays a scenario once; returns the first error, or 0. Frees all that it made. */
typedef int torture_scenario(void *arg);

/*
 * Plays the scenario until no allocation of it fails any more. Each run must end with 0
 * or an error whose text says for what there was no memory; the last one with 0. The
 * sanitizer finds leaks. Returns the number of runs.
 */
size_t torture(torture_scenario *scenario, void *arg);

/* The same for allocations `first`, `first + stride`, ... only: where all of them would
 * take too long, several tests share them. */
size_t torture_some(torture_scenario *scenario, void *arg, size_t first, size_t stride);

/* From here to torture_calm_end nothing fails: what the test itself does. */
void torture_calm(void);
void torture_calm_end(void);

#endif
