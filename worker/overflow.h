/*
 * Overflows of scaled gradients: notes an overflow, and takes the gradients out of the
 * commit. A slot's thread.
 */
#ifndef COXI_WORKER_OVERFLOW_H
#define COXI_WORKER_OVERFLOW_H

#include "worker/attempt.h"

/* The step tells the loss scale `v` whether its gradients overflowed. COX_EINVAL: it
 * has told another one. */
int coxi_overflow_tell(struct coxi_attempt *attempt, struct cox_variable *v,
                       bool overflowed);

/*
 * A gradient cannot be sent because it is not finite; `code` and the error text say so.
 * Returns 0 if gradients are scaled, because then it is an overflow and no error; else
 * `code`.
 */
int coxi_overflow_nonfinite(struct coxi_attempt *attempt, int code);

/* Takes the gradients out of the segment, because they overflowed. */
void coxi_overflow_skip(struct coxi_attempt *attempt);

#endif
