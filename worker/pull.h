/* Pulls of a step: see pull.c. A slot's thread. */
#ifndef COXI_WORKER_PULL_H
#define COXI_WORKER_PULL_H

#include "worker/attempt.h"

/* COX_EINVAL, COX_ELIMIT unless the variable has the rows and the call is complete. */
int coxi_pull_check(const struct cox_pull *pull);

/* cox_pull_begin and cox_pull_wait, except that the error text is not kept for the
 * step. `at_once`: the values may be written to from now on. */
int coxi_pull_begin(struct coxi_attempt *attempt, const struct cox_pull *pulls,
                    size_t n_pulls, bool at_once, struct coxi_fetch **ret);
int coxi_pull_wait(struct coxi_attempt *attempt, struct coxi_fetch *fetch);

/* Waits for the pulls that the step has left under way, and drops their values. */
void coxi_pulls_end(struct coxi_attempt *attempt);

/* Frees the fetches of a scratch. */
void coxi_pulls_free(struct coxi_scratch *scratch);

#endif
