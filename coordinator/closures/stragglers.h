/*
 * Second attempts of closures that take far longer than others of their function, while
 * workers have nothing to do. Loop.
 */
#ifndef COXI_COORDINATOR_CLOSURES_STRAGGLERS_H
#define COXI_COORDINATOR_CLOSURES_STRAGGLERS_H

#include "coordinator/closures/seat.h"

/* A second attempt, in the hands of another worker than the first. */
struct coxi_second {
    struct coxi_closure *closure;
    struct coxi_seat *seat;
    uint32_t attempt;
    struct coxi_second *next; /* of the same worker */
    struct coxi_second *prev;
};

/* A call of `function` took so long. */
void coxi_straggler_sample(struct cox_function *function, uint32_t run_us);

/* Looks for closures to race, and has idle workers take what waits behind others. Every
 * COXI_TICK_MS. */
void coxi_stragglers_tick(struct cox_coordinator *c);

/*
 * An attempt of the closure has ended in the hands of `worker`, and it is not the first one. True:
 * it was the second, which ends the closure; the first has been recalled and it is in
 * nobody's hands.
 */
bool coxi_straggler_ended(struct coxi_seat *seat, struct coxi_closure *closure,
                          const struct coxi_done_head *head);

/* The first attempt is over: the second, if there is one, takes its place. */
bool coxi_straggler_promote(struct coxi_closure *closure);

/* The closure needs no second attempt any more: if there is one, it is recalled. */
void coxi_straggler_drop(struct coxi_closure *closure);

/* For how long the worker's oldest closure has been that, in ms, if it was so at the last tick;
 * 0: it was another one, or there is none. */
uint64_t coxi_straggler_ran_ms(const struct coxi_seat *seat, uint64_t now_ms);

/* The worker is lost, and with it the second attempts that it had. */
void coxi_stragglers_lost(struct coxi_seat *seat);

#endif
