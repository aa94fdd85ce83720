/* The memory of a run: everything that the simulated processes allocate. It is dropped
 * as a whole when the run ends, however they died. */
#ifndef COXI_SIM_MEMORY_H
#define COXI_SIM_MEMORY_H

#include <stddef.h>

/* Allocations between these two calls belong to the run. */
void sim_memory_begin(void);
void sim_memory_end(void);

/* The C library's own realloc. */
void *sim_real_realloc(void *at, size_t bytes);

/* The most memory that a run has had. */
size_t sim_memory_most(void);

#endif
