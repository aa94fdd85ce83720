/* Second attempts of closures that take far longer than others of their function, while
 * other workers are idle. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_STRAGGLERS_H
#define COXI_COORDINATOR_CLOSURES_STRAGGLERS_H

#include "coordinator/closures/seat.h"

/* A second attempt, on another worker than the first. */
struct coxi_second {
    struct coxi_closure *closure;
    struct coxi_seat *seat;
    uint32_t attempt;
    struct coxi_second *next; /* of the same worker */
    struct coxi_second *prev;
};

/* Begins second attempts of stragglers, and hands closures that are queued after them
 * to idle workers. Every COXI_TICK_MS. */
void coxi_stragglers_tick(struct cox_coordinator *c);

/*
 * An attempt of the closure has ended on the worker of `seat`; it is not the current
 * one. Returns true if it was the second attempt and ends the closure: then the first
 * attempt was recalled, and no worker has the closure any more.
 */
bool coxi_straggler_ended(struct coxi_seat *seat, struct coxi_closure *closure,
                          const struct coxi_done_head *head);

/* The first attempt is over: the second, if there is one, takes its place. */
bool coxi_straggler_promote(struct coxi_closure *closure);

/* The closure no longer needs a second attempt: recalls it, if there is one. */
void coxi_straggler_drop(struct coxi_closure *closure);

/* For how long the worker's oldest closure has been its oldest, in ms; 0 if that has
 * changed since the last tick, or if there is none. */
uint64_t coxi_straggler_ran_ms(const struct coxi_seat *seat, uint64_t now_ms);

/* The worker is lost, and its second attempts with it. */
void coxi_stragglers_lost(struct coxi_seat *seat);

#endif
