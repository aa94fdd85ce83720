/*
 * Converts the optimizer and initializer of a spec: replaces zeros by defaults, and
 * Glorot's initializers by plain ones for this shape. The ps, workers, evaluators and
 * manifests see only the result.
 */
#ifndef COXI_COORDINATOR_VARIABLES_RULES_H
#define COXI_COORDINATOR_VARIABLES_RULES_H

#include "coxswain/coxswain.h"
#include "schema/wire.h"

/*
 * Sets the rules of a variable whose kind and shape are set. Checks only what the
 * result does not show (COX_EINVAL: numbers for one of Glorot's initializers);
 * coxi_variable_check checks the rest. Any thread.
 */
int coxi_rules_set(struct coxi_variable *variable,
                   const struct cox_optimizer *optimizer,
                   const struct cox_initializer *initializer);

/*
 * Sets the seed of a variable whose initializer draws and has none (0): a function of
 * the run's seed and the variable's name. So variables of equal specs begin with
 * different values, and a client that attaches to an existing variable finds it equal.
 * Any thread.
 */
void coxi_rules_seed(struct coxi_variable *variable, uint64_t run_seed);

/* Sets a table's lifecycle. */
void coxi_rules_set_lifecycle(struct coxi_variable *variable,
                              const struct cox_lifecycle *lifecycle);

#endif
