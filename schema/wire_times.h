/* Where the time of steps went, in messages; a part of wire.h. */
#ifndef COXI_SCHEMA_WIRE_TIMES_H
#define COXI_SCHEMA_WIRE_TIMES_H

#include <stdint.h>

/* StepTimes in wire.fbs. */
struct coxi_step_times {
    uint64_t begin_us;
    uint32_t slot;
    uint32_t idle_us;
    uint32_t data_us;
    uint32_t pull_us;
    uint32_t flush_us;
    uint32_t place_us;
    uint32_t commit_us;
    uint32_t n_pulls;
};

#endif
