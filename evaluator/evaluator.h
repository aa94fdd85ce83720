/* What eval_log.c must know of an evaluator. */
#ifndef COXI_EVALUATOR_EVALUATOR_H
#define COXI_EVALUATOR_EVALUATOR_H

#include "coxswain/coxswain.h"

const char *coxi_evaluator_dir(const struct cox_evaluator *evaluator);
const struct cox_evaluator_options *
coxi_evaluator_options(const struct cox_evaluator *evaluator);

/* The number of the loaded checkpoint; 0: none is loaded. */
uint64_t coxi_evaluator_loaded(const struct cox_evaluator *evaluator);

#endif
