/* Commits what a step has collected: see commit.c. A slot's thread. */
#ifndef COXI_WORKER_COMMIT_H
#define COXI_WORKER_COMMIT_H

#include "worker/attempt.h"

/* Commits a segment and waits until every ps has it: cox_step_flush, except that the
 * error text is not kept for the step. */
int coxi_commit_flush(struct coxi_attempt *attempt);

/*
 * Commits the last segment, of a step that has returned. When all have acknowledged,
 * the attempt's end is reported. False: the step has collected nothing at all, nothing
 * is committed, and the caller reports the end.
 */
bool coxi_commit_last(struct coxi_attempt *attempt);

#endif
