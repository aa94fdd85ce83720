/*
 * What the optimizer and initializer of a spec mean: defaults in place of zeros, and
 * Glorot's initializers as what they are for this shape. The ps, workers, evaluators and
 * manifests only see the outcome.
 */
#ifndef COXI_COORDINATOR_VARIABLES_RULES_H
#define COXI_COORDINATOR_VARIABLES_RULES_H

#include "coxswain/coxswain.h"
#include "schema/wire.h"

/*
 * Sets the rules of a variable that has its kind and shape. Only what is not seen in the
 * outcome is checked here (COX_EINVAL: numbers for one of Glorot's initializers); the rest
 * coxi_variable_check checks. Any thread.
 */
int coxi_rules_set(struct coxi_variable *variable,
                   const struct cox_optimizer *optimizer,
                   const struct cox_initializer *initializer);

/*
 * The seed of a variable whose initializer draws and was given none (0): a function of the
 * run's seed and the variable's name. So variables of equal specs begin differently, and a
 * client that attaches to one that is there finds it equal. Any thread.
 */
void coxi_rules_seed(struct coxi_variable *variable, uint64_t run_seed);

/* Sets a table's lifecycle. */
void coxi_rules_set_lifecycle(struct coxi_variable *variable,
                              const struct cox_lifecycle *lifecycle);

#endif
