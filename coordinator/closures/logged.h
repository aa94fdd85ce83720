/*
 * Scalars that steps have logged (cox_step_log_scalar). They come with the report of an
 * attempt, and are recorded in the run's history when the closure is settled as done for
 * the first time. So each closure's count once: not those of attempts that did not end it,
 * nor of replays, nor of a closure that an older client had settled already. Loop.
 */
#ifndef COXI_COORDINATOR_CLOSURES_LOGGED_H
#define COXI_COORDINATOR_CLOSURES_LOGGED_H

#include "coordinator/closures/closure.h"

/* An attempt was done, and its step has logged these scalars (common/scalars.h). Without
 * memory they are lost. */
void coxi_logged_keep(struct coxi_closure *closure, const uint8_t *scalars, size_t len);

/* The attempt does not count. */
void coxi_logged_forget(struct coxi_closure *closure);

/* The closure is settled, and its state says how: records them if it is done. */
void coxi_logged_settled(struct coxi_closure *closure);

#endif
