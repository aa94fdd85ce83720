/*
 * What a worker counts for those who watch it (--http). It lies in the recorder's memory:
 * the step process counts, and the supervisor tells it, so it goes on where a step process
 * has died. Any thread.
 */
#ifndef COXI_WORKER_FIGURES_H
#define COXI_WORKER_FIGURES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/clock.h"
#include "common/latency.h"

struct coxi_figures {
    atomic_bool watched; /* somebody may ask: count */
    atomic_uint slots;   /* of the step process */
    atomic_uint_least64_t done;
    atomic_uint_least64_t failed; /* attempts that ended with an error */
    struct coxi_latency steps;    /* run time of steps */
    struct coxi_latency pulls;    /* how long steps waited for a pull */
    struct coxi_latency commits;  /* from a commit to the last ps's answer */
};

/* Now, in ns; 0: nobody counts (`figures` NULL, or not watched). */
static inline uint64_t coxi_figures_begin(const struct coxi_figures *figures)
{
    return figures != NULL &&
                   atomic_load_explicit(&figures->watched, memory_order_relaxed)
               ? coxi_now_ns()
               : 0;
}

/* Counts the time since `begun_ns`, which is not 0. */
static inline void coxi_figures_end(struct coxi_latency *latency, uint64_t begun_ns)
{
    coxi_latency_add(latency, (coxi_now_ns() - begun_ns) / 1000);
}

#endif
