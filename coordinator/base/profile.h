/*
 * Where the time of steps and of their slots went, for each function: added up by the
 * loop from the reports of workers (StepTimes in schema/wire.fbs), read by
 * monitor/profile.c.
 *
 * Threads: one writer, the loop; readers on any thread, without a lock, whose numbers
 * may lack what is being noted. Cost: 5 KiB for each function that has run.
 */
#ifndef COXI_COORDINATOR_BASE_PROFILE_H
#define COXI_COORDINATOR_BASE_PROFILE_H

#include <stdbool.h>

#include "common/durations.h"
#include "schema/wire.h"

enum coxi_part {
    COXI_PART_STEP,    /* from its call to its return */
    COXI_PART_DATA,    /* reading records */
    COXI_PART_PULL,    /* waiting for the values of pulls */
    COXI_PART_COMPUTE, /* the rest of the step, without flushes */
    COXI_PART_COMMIT,  /* until the last commit was acknowledged; the slot goes on */
    COXI_PARTS,
};

/* Sums, in microseconds. Of a slot's time `idle`, `blocked`, data, pull and compute are
 * all. */
struct coxi_part_sums {
    uint64_t n; /* steps */
    uint64_t part_us[COXI_PARTS];
    uint64_t idle_us;    /* the slot had no closure ... */
    uint64_t starved_us; /* ... and the client's queue was empty, too */
    uint64_t blocked_us; /* it waited for commits: flushes, places in the window */
};

struct coxi_profile {
    struct coxi_durations parts[COXI_PARTS];
    atomic_uint_least64_t idle_us;
    atomic_uint_least64_t starved_us;
    atomic_uint_least64_t blocked_us;

    /* for sums of the last 10 to 20 s: those at two moments; monitor/profile.c,
     * guarded by c->lock */
    struct coxi_part_sums marks[2];
    uint64_t marked_ms;
};

/* An attempt of a function, whose profile is *profile (NULL: none yet), was reported.
 * Without memory it is not counted. Loop. */
void coxi_profile_note(struct coxi_profile *_Atomic *profile, uint32_t run_us,
                       const struct coxi_step_times *times, bool queue_is_empty);

/* The sums until now; zeros for NULL. Any thread. */
struct coxi_part_sums coxi_profile_sums(const struct coxi_profile *profile);

#endif
