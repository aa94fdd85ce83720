/*
 * Memory of a run: whatever the simulated processes allocate, which is all forgotten when
 * the run ends, however they died.
 */
#ifndef COXI_SIM_MEMORY_H
#define COXI_SIM_MEMORY_H

#include <stddef.h>

/* From here on, and no longer, allocations belong to the run. */
void sim_memory_begin(void);
void sim_memory_end(void);

/* The C library's own. */
void *sim_real_realloc(void *at, size_t bytes);

/* The most that a run has had. */
size_t sim_memory_most(void);

#endif
