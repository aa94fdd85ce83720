/* Checks a user's call (struct cox_call) and packs its arguments. Any thread, without
 * c->lock. */
#ifndef COXI_COORDINATOR_BASE_PACKING_H
#define COXI_COORDINATOR_BASE_PACKING_H

#include "coordinator/coordinator.h"

/* The first character of names that only the library gives to arguments and results
 * (data/task.h). */
static inline bool coxi_is_reserved(const char *name)
{
    return name[0] == '\1';
}

/*
 * Converts the call to this version's form (`call` may be NULL: a call without
 * arguments), and computes the bytes of its packed arguments. COX_EINVAL, COX_ELIMIT.
 */
int coxi_packing_check(const struct cox_call *call, struct cox_call *ret_known,
                       size_t *ret_size);

/* Packs the arguments of a checked call into an empty buffer. COX_ENOMEM. */
int coxi_packing_args(const struct cox_call *known, struct coxi_buffer *args);

/* How long the step of a checked call may run, in ms; 0: no limit. */
uint32_t coxi_packing_timeout(const struct cox_coordinator *c,
                              const struct cox_call *known);

#endif
