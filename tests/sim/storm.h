/* The faults of a storm, and the storm as a whole. */
#ifndef COXI_SIM_STORM_H
#define COXI_SIM_STORM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_storm_result {
    const char *violation; /* NULL: none; valid until the next storm */
    uint64_t turns;        /* of fibers */
    uint64_t messages;
    uint64_t virtual_ms;
    uint32_t faults;
    uint32_t lives; /* of the client */
};

/* A ps is lost now, by one of the storm's faults; false: none is left for that. */
bool sim_storm_strike(void);

void sim_storm_run(uint64_t seed, uint32_t n_calls, struct sim_storm_result *ret);

#endif
