/* What variables hold, for the coordinator's own: content.c has the public functions. */
#ifndef COXI_COORDINATOR_CONTENT_H
#define COXI_COORDINATOR_CONTENT_H

#include "coordinator/coordinator.h"

/* Rows [begin, begin + count), in range, of a dense variable, in its own type. Any thread;
 * blocks. COX_EPSLOST; COX_ECLOSED and what else ended the coordinator. */
int coxi_content_read(struct cox_coordinator *c, const struct coxi_variable *v,
                      uint64_t begin, uint64_t count, void *ret_data);
int coxi_content_update(struct cox_coordinator *c, const struct coxi_variable *v,
                        enum coxi_op op, uint64_t begin, uint64_t count,
                        const void *data);

/* The same as an operation that has begun, which it ends. */
int coxi_content_write(struct cox_coordinator *c, struct cox_future *operation,
                       const struct coxi_variable *v, enum coxi_op op, uint64_t begin,
                       uint64_t count, const void *data);

/* Asks all ps for their counters, and those of a table where `table` is 1 + its id. `take`
 * is called for each when all have answered. */
int coxi_content_count(struct cox_coordinator *c, uint32_t table,
                       void (*take)(void *arg, const struct coxi_counts *counts),
                       void *arg);

#endif
