/*
 * Profiles: where the time of steps goes, and what bounds the run. docs/watching.md has
 * the rule. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_PROFILE_H
#define COXSWAIN_PROFILE_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push /* functions and structs share names on purpose */
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct cox_coordinator;
struct cox_function;

/* What most of the slots' time goes to. */
enum cox_bound {
    COX_BOUND_UNKNOWN, /* no step has been reported yet */
    COX_BOUND_COMPUTE, /* the code of steps */
    COX_BOUND_PS,      /* waiting for pulls and commits */
    COX_BOUND_DATA,    /* reading the records of a data set */
    COX_BOUND_LATENCY, /* nothing: slots have no closure */
};

/* Times of many steps: their sum, and the time that half of them (99 of 100) do not
 * exceed, within 7 %. In microseconds. */
struct cox_durations {
    uint64_t sum_us;
    uint64_t p50_us;
    uint64_t p99_us;
};

struct cox_profile {
    size_t size;
    uint64_t steps;               /* steps that have run, also those that failed */
    struct cox_durations step;    /* from the step's call to its return: */
    struct cox_durations data;    /* ... reading records (cox_step_batch) */
    struct cox_durations pull;    /* ... waiting for the values of pulls */
    struct cox_durations compute; /* ... the rest, without waiting for flushes */
    /* From the step's return until all ps had its last commit. The slot runs other steps
     * meanwhile. */
    struct cox_durations commit;
    uint64_t blocked_us; /* slots waited for commits: flushes, full commit windows */
    uint64_t idle_us;    /* slots had no closure */
    int bound;           /* enum cox_bound */
    char advice[320];    /* a sentence: what bounds the run, and what to change */
};
#define COX_PROFILE_INIT COX_INIT(cox_profile)

/*
 * Where the time of a function's steps went since cox_open; `function` NULL: of all
 * functions. Workers report a step's times with its end, so a step that still runs does
 * not count. Waits for nothing. Any thread. COX_EINVAL.
 */
COX_API int cox_profile(struct cox_coordinator *c, const struct cox_function *function,
                        struct cox_profile *ret);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
