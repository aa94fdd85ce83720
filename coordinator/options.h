/* The options of cox_open: what their zeros stand for, and what they may be. Any thread. */
#ifndef COXI_COORDINATOR_OPTIONS_H
#define COXI_COORDINATOR_OPTIONS_H

#include "coordinator/coordinator.h"

/* Makes the options that a client of `cluster` runs with, of those that the program has
 * given (NULL: all defaults; its strings are copied). COX_EINVAL: the text names the
 * option. */
int coxi_options_take(struct cox_coordinator *c, const struct cox_options *given,
                      const struct cox_cluster *cluster);

#endif
