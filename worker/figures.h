/*
 * What a worker counts for those who watch it (--http). It lies in the recorder's memory:
 * the step process counts, and the supervisor tells it, so it goes on where a step process
 * has died. Any thread.
 */
#ifndef COXI_WORKER_FIGURES_H
#define COXI_WORKER_FIGURES_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/latency.h"

/* What different threads write lies on different lines of the cores' caches, and what all
 * of them read on another one. */
enum { COXI_FIGURES_LINE = 64 };

struct coxi_figures {
    alignas(COXI_FIGURES_LINE) atomic_bool watched; /* somebody may ask: count */
    atomic_uint slots;                              /* of the step process */
    atomic_bool met;                                /* a client has come */
    /* when the last client went, or a new step process began (coxi_now_ms); 0: one is
     * here */
    atomic_uint_least64_t left_ms;

    /* ---- slots write */
    alignas(COXI_FIGURES_LINE) struct coxi_latency steps; /* run time of steps */
    struct coxi_latency pulls; /* how long steps waited for a pull */

    /* ---- those that receive a ps's answers write */
    alignas(COXI_FIGURES_LINE) struct coxi_latency commits; /* until the last answer */
    atomic_uint_least64_t done;
    atomic_uint_least64_t failed; /* attempts that ended with an error */
};

#endif
