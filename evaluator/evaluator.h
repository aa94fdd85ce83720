/* What an evaluator's results (eval_log.c) need to know of it. */
#ifndef COXI_EVALUATOR_EVALUATOR_H
#define COXI_EVALUATOR_EVALUATOR_H

#include "coxswain/coxswain.h"

const char *coxi_evaluator_dir(const struct cox_evaluator *evaluator);
const struct cox_evaluator_options *
coxi_evaluator_options(const struct cox_evaluator *evaluator);

/* The number of the checkpoint that is loaded; 0: none is. */
uint64_t coxi_evaluator_loaded(const struct cox_evaluator *evaluator);

#endif
