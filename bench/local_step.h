/* Runs steps in this process, on the store of a ps, without links: the baseline of
 * `train`. Variables "weights" (a table of `dim`) and "bias", as in the click model. */
#ifndef COXI_BENCH_LOCAL_STEP_H
#define COXI_BENCH_LOCAL_STEP_H

#include "coxswain/step.h"

struct local_step;

struct local_step *local_step_new(uint32_t dim);
void local_step_free(struct local_step *local);

/* Runs a step and commits its updates; dies if it fails. */
void local_step_run(struct local_step *local, int (*run)(struct cox_step *step),
                    const struct cox_value *args, size_t n_args);

#endif
