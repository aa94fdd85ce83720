/* Errors of the run: the first error to report, and the error that ends the run. Any
 * thread. */
#ifndef COXI_COORDINATOR_BASE_ALIVE_H
#define COXI_COORDINATOR_BASE_ALIVE_H

#include "coordinator/coordinator.h"

/* 0, or the reason why nothing works any more: COX_ECLOSED, COX_EPSLOST,
 * COX_EFENCED. */
int coxi_check_alive(struct cox_coordinator *c);

/* The same, with c->lock held. */
int coxi_check_alive_locked(const struct cox_coordinator *c);

/* Notes an error, which the next schedule, join or done reports. */
void coxi_note_error(struct cox_coordinator *c, int code, const char *text)
    COXI_REQUIRES(c->lock);

/* Declares the cluster unusable (a ps is lost, or another client has come). */
void coxi_fatal(struct cox_coordinator *c, int code, const char *text);

#endif
