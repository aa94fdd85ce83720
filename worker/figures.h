/*
 * What a worker counts for those who watch it (--http). It lies in the recorder's memory:
 * the step process counts, and the supervisor tells it, so it goes on where a step process
 * has died. Any thread.
 */
#ifndef COXI_WORKER_FIGURES_H
#define COXI_WORKER_FIGURES_H

#include <stdatomic.h>
#include <stdbool.h>

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

#endif
