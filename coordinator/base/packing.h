/* What a user says of a call (struct cox_call): checked, and its arguments packed. Any thread,
 * without c->lock. */
#ifndef COXI_COORDINATOR_BASE_PACKING_H
#define COXI_COORDINATOR_BASE_PACKING_H

#include "coordinator/coordinator.h"

/* The call as this version knows it (`call` may be NULL: one without arguments), and how many
 * bytes its packed arguments have. COX_EINVAL, COX_ELIMIT. */
int coxi_packing_check(const struct cox_call *call, struct cox_call *ret_known,
                       size_t *ret_size);

/* Packs the arguments of a call that was checked into an empty buffer. COX_ENOMEM. */
int coxi_packing_args(const struct cox_call *known, struct coxi_buffer *args);

/* How long the step of a call that was checked may run, in ms; 0: as long as it likes. */
uint32_t coxi_packing_timeout(const struct cox_coordinator *c,
                              const struct cox_call *known);

#endif
